"""Calls of matmuls on CUDA devices that a Triton kernel can compute, with reasons against the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr, Int, prove_eq
from wrapper_ir_passes.devices.source_kernels import expanded_strides

_FACTORS = {
    "mm": ("self", "mat2"),
    "addmm": ("mat1", "mat2"),
    "bmm": ("self", "mat2"),
    "baddbmm": ("batch1", "batch2"),
}
OPERATORS = frozenset(f"aten::{name}{overload}" for name in _FACTORS for overload in ("", ".out"))
"""The operators whose calls are replaced."""
_DTYPES = (ir.DType.F32, ir.DType.F16, ir.DType.BF16)
_Tensor = ir.Value[ir.TensorType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matmul:
    """A call: `result = alpha * first @ second + beta * bias`, of matrices or of batches of them.

    `bias_strides` are those of the added tensor, expanded to the sizes of the result.
    """

    first: _Tensor
    second: _Tensor
    bias: _Tensor | None
    bias_strides: tuple[Expr, ...]
    result: _Tensor
    is_new: bool
    """The operator returns the result; otherwise it is an out argument."""
    alpha: float
    beta: float

    @property
    def tensors(self) -> tuple[_Tensor, ...]:
        """The tensors that a kernel reads or writes, except a new result."""
        bias = () if self.bias is None else (self.bias,)
        return (self.first, self.second, *bias, *(() if self.is_new else (self.result,)))

    @property
    def sizes(self) -> tuple[Expr, Expr, Expr, Expr]:
        """The number of matrices, rows, columns, and the depth."""
        batch, rows, columns = _batched(self.result.type.sizes, Int(1))
        return batch, rows, columns, self.first.type.sizes[-1]

    def strides(self, tensor: _Tensor) -> tuple[Expr, ...]:
        """The strides of an operand or the result: batch, row, column."""
        strides = self.bias_strides if tensor is self.bias else tensor.type.strides
        return _batched(strides, Int(0))


def _batched(numbers: tuple[Expr, ...], batch: Expr) -> tuple[Expr, ...]:
    return numbers if len(numbers) == 3 else (batch, *numbers)


def matmul_of(op: ir.CallExtern, analyses: Analyses) -> Matmul | str:
    """Returns what a call of one of `OPERATORS` computes, or the reason why no kernel computes it."""
    info = analyses.operator(op.target)
    if info is None:
        return "its operator is unknown"
    args = dict(zip((a.name for a in info.schema.args), op.args)) | dict(op.kwargs)
    names = _FACTORS[op.target.removeprefix("aten::").removesuffix(".out")]
    first, second = (args.get(name) for name in names)
    result = op.result if op.result is not None else args.get("out")
    bias = args.get("self") if "self" not in names else None
    if not (ir.is_tensor(first) and ir.is_tensor(second) and ir.is_tensor(result)):
        return "its operands are unknown"
    if bias is not None and not ir.is_tensor(bias):
        return "its operands are unknown"
    reason = _against(first, second, result, bias, analyses.program.target)
    if reason:
        return reason
    alpha, beta = _factor(args, "alpha"), _factor(args, "beta")
    strides = (Int(0),) * 2 if bias is None else expanded_strides(bias.type, result.type.sizes)
    if strides is None or alpha is None or beta is None:
        return "its added tensor or its factors are known at run time only"
    has_bias = bias is not None and beta != 0
    return Matmul(
        first=first,
        second=second,
        bias=bias if has_bias else None,
        bias_strides=strides,
        result=result,
        is_new=op.result is not None,
        alpha=alpha,
        beta=beta,
    )


def _against(
    first: _Tensor, second: _Tensor, result: _Tensor, bias: _Tensor | None, target: ir.Target
) -> str:
    """Returns the reason against operands and a result, "" if there is none."""
    types = [tensor.type for tensor in (first, second, result, *(() if bias is None else (bias,)))]
    if any(type.device.type != "cuda" for type in types) or target.arch.startswith("gfx"):
        return "it is not on a CUDA device of NVIDIA"
    dtype = types[0].dtype
    if dtype not in _DTYPES or any(type.dtype is not dtype for type in types):
        return f"its element type is {dtype.value}"
    a, b, c = (type.sizes for type in types[:3])
    if not len(a) == len(b) == len(c) in (2, 3):
        return "its operands do not have two or three dimensions"
    pairs = ((a[-1], b[-2]), (a[-2], c[-2]), (b[-1], c[-1]), *zip(a[:-2], b[:-2]), *zip(a[:-2], c[:-2]))
    if not all(prove_eq(x, y) for x, y in pairs):
        return "sizes of its operands are not known to agree"
    return ""


def _factor(args: Mapping[str, ir.Arg], name: str) -> float | None:
    """Returns a factor that is the same in all calls; None for others."""
    match args.get(name, Int(1)):
        case Expr(constant=int() | float() as number):
            return float(number)
        case _:
            return None
