"""Programs with one matmul, for a table of cases, and its result in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wrapper_ir import ir, parse_program
from wrapper_ir_passes import run_pipeline

_SCHEMAS = {
    "mm": "Tensor self, Tensor mat2",
    "addmm": "Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1",
    "bmm": "Tensor self, Tensor mat2",
    "baddbmm": "Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1",
}
_NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A call of `rows` x `depth` by `depth` x `columns`.

    `batch` is 0 for matrices. `layout` is of the second factor: "rows", "columns" (a transposed weight), or "window"
    (of a wider matrix). `bias` is "", "columns", "rows", "full" or "one", and `out` calls the out variant. Rows are
    symbols if the case is dynamic.
    """

    rows: int
    columns: int
    depth: int
    dtype: torch.dtype = torch.float32
    batch: int = 0
    layout: str = "rows"
    bias: str = ""
    alpha: float = 1.0
    beta: float = 1.0
    out: bool = True
    dynamic: bool = False

    def __str__(self) -> str:
        said = [
            _NAMES[self.dtype],
            f"{self.batch}x{self.rows}x{self.depth}x{self.columns}",
            self.layout,
            self.bias,
        ]
        flags = {"new": not self.out, "dynamic": self.dynamic, "scaled": (self.alpha, self.beta) != (1, 1)}
        return "-".join(filter(None, (*said, *(name for name, is_set in flags.items() if is_set))))

    @property
    def operator(self) -> str:
        """The operator without its overload."""
        return ("baddbmm" if self.batch else "addmm") if self.bias else ("bmm" if self.batch else "mm")


def inputs(case: Case, device: str = "cpu") -> list[Tensor]:
    """Returns both factors, and the added tensor if there is one."""
    torch.manual_seed(0)
    batch = (case.batch,) if case.batch else ()
    second = torch.randn(*batch, case.depth, case.columns + (8 if case.layout == "window" else 0))
    if case.layout == "columns":
        second = second.transpose(-1, -2).contiguous().transpose(-1, -2)
    shapes = {
        "columns": (case.columns,),
        "rows": (case.rows, 1),
        "full": (*batch, case.rows, case.columns),
        "one": (),
    }
    tensors = [torch.randn(*batch, case.rows, case.depth), second[..., : case.columns]]
    tensors += [torch.randn(shapes[case.bias])] if case.bias else []
    return [_moved(t, device, case.dtype) for t in tensors]


def _moved(tensor: Tensor, device: str, dtype: torch.dtype) -> Tensor:
    """A tensor with the same strides, elsewhere."""
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device=device)
    made.copy_(tensor)
    return made


def expected(case: Case, tensors: Sequence[Tensor]) -> Tensor:
    """Returns the result, computed in float64."""
    first, second, *bias = (t.double() for t in tensors)
    result = case.alpha * (first @ second)
    return (result + case.beta * bias[0] if bias else result).to(case.dtype)


def program(case: Case, device: str = "cuda:0", arch: str = "sm_90") -> ir.Program:
    """Returns a program that calls the operator."""
    tensors = inputs(case)
    names = ["%a", "%w", "%b"][: len(tensors)]
    types = [_type(case, name, tensor) for name, tensor in zip(names, tensors)]
    out = _type(case, "%o", expected(case, tensors))
    schema = f"aten::{case.operator}({_SCHEMAS[case.operator]}) -> Tensor"
    operator = f"aten::{case.operator}"
    if case.out:
        operator += ".out"
        separator = ", " if ", *, " in schema else ", *, "
        schema = f"{operator}({_SCHEMAS[case.operator]}{separator}Tensor(a!) out) -> Tensor(a!)"
    args = "%b, %a.a, %w.a" if case.bias else "%a.a, %w.a"
    factors = f", beta={case.beta}, alpha={case.alpha}" if (case.alpha, case.beta) != (1, 1) else ""
    call = f"%o = call {operator}({args}{factors}) : {out}"
    if case.out:
        call = f"%o = alloc {out}\n  call {operator}({args}{factors}, out=%o)"
    symbol = "symbol s0 : int backed [0, 4096] hint 24\n" if case.dynamic else ""
    define = f"  define s0 = size(%a, {1 if case.batch else 0})\n" if case.dynamic else ""
    aligned = "".join(f"  {n}.a = ensure_aligned {n}, 16\n  drop {n}\n" for n in names[:2])
    drops = "".join(f"  drop {n}\n" for n in ("%a.a", "%w.a", *names[2:]))
    return parse_program(
        f"""wir 0.5
target {device} arch "{arch}"

{symbol}extern "{schema}"

func @main({", ".join(f"{n}: {t}" for n, t in zip(names, types))}) {{
{define}{aligned}  {call}
{drops}  return %o
}}
"""
    )


def _type(case: Case, name: str, tensor: Tensor) -> str:
    """The type of a tensor, with a symbol for the number of rows."""
    sizes, strides = [str(size) for size in tensor.shape], [str(stride) for stride in tensor.stride()]
    if case.dynamic and name != "%w" and len(sizes) > 1:
        sizes[-2] = "s0"
        if len(sizes) > 2:
            strides[0] = f"s0*{sizes[2]}"
    return f"{_NAMES[tensor.dtype]}[{', '.join(sizes)}]{{{', '.join(strides)}}}"


def with_kernels(case: Case, device: str = "cuda:0", arch: str = "sm_90") -> ir.Program:
    """The program after the pass."""
    return run_pipeline(program(case, device, arch), "matmul-kernels")
