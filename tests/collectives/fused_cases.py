"""Programs with matmuls fused with collectives, and CPU versions of torch's fused operators, which torch
lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed import _functional_collectives

import fx_converter
import py_wrapper
from fx_converter import FxOptions
from wrapper_ir import ir, parse_program, print_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_passes import run_pipeline
from wrapper_ir_runtime.interp import Interpreter
from wrapper_ir_torch import torch_operators

# Any in this file: untyped parts of torch
_funcol: Any = _functional_collectives
_FUSE = "derive-frees,lower-collectives{fused-matmuls=true,fused-matmuls-minimum-bytes=0}"
DECLARATIONS = """extern "_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)
extern "_c10d_functional::all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor" tags(collective)
extern "aten::mm(Tensor self, Tensor mat2) -> Tensor"
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
extern "aten::relu(Tensor self) -> Tensor"
extern "aten::relu_(Tensor(a!) self) -> Tensor(a!)"
"""
_LAYER = """wir 0.5
target cuda:0

DECLARATIONS
func @main(%x: f32[4, 2, 8], %gate: f32[16, 8], %up: f32[8, 16], %down: f32[16, 8]) {
  %h = collective _c10d_functional::all_gather_into_tensor(%x, WORLD, "0") group("0") : f32[ALL, 2, 8]
  %g = wait %h : f32[ALL, 2, 8]
  %rows = view %g : f32[ROWS, 8]
  %first = view %gate : f32[8, 16]{1, 8}
  %a = alloc f32[ROWS, 16]
  call aten::mm.out(%rows, %first, out=%a)
  call aten::relu_(%a)
  %b = alloc f32[ROWS, 16]
  call aten::mm.out(%rows, %up, out=%b)
  %c = alloc f32[ROWS, 8]
  call aten::mm.out(%a, %down, out=%c)
  %parts = view %c : f32[ALL, 2, 8]
  %r = collective _c10d_functional::reduce_scatter_tensor(%parts, "OPERATION", WORLD, "0") group("0") : f32[4, 2, 8]
  %s = wait %r : f32[4, 2, 8]
  return %s, %b, %g
}
"""


def program(world: int, operation: str = "sum") -> ir.Program:
    """A layer that is split by columns and then by rows, between a gather and a reduce-scatter, for a GPU."""
    sizes = {"DECLARATIONS": DECLARATIONS, "WORLD": world, "ROWS": 8 * world, "ALL": 4 * world}
    text = _LAYER.replace("OPERATION", operation)
    for name, value in sizes.items():
        text = text.replace(name, str(value))
    return parse_program(text)


def fused(program: ir.Program, device: str = "cpu") -> tuple[Artifact, Artifact]:
    """Returns a program for a GPU, unfused and with fused matmuls, both for this device."""
    made = (print_program(run_pipeline(program, passes)) for passes in ("derive-frees", _FUSE))
    usual, other = (bare_artifact(parse_program(text.replace("cuda:0", device))) for text in made)
    return usual, other


def _gather_matmuls(A: Tensor, Bs: list[Tensor], dim: int, group: str, *, return_A: bool = True) -> Any:
    whole = _funcol.wait_tensor(_funcol.all_gather_tensor(A, dim, group))
    return whole if return_A else None, [whole @ B for B in Bs]


def _matmul_scatter(A: Tensor, B: Tensor, operation: str, dim: int, group: str) -> Any:
    return _funcol.wait_tensor(_funcol.reduce_scatter_tensor(A @ B, operation, dim, group))


@contextmanager
def operators_of_cpu() -> Iterator[None]:
    """Torch's fused operators work on tensors of the CPU."""
    torch_operators("symm_mem")  # their declarations
    library: Any = torch.library.Library("symm_mem", "IMPL")  # type: ignore[no-untyped-call]  # torch's own
    library.impl("fused_all_gather_matmul", _gather_matmuls, "CPU")
    library.impl("fused_matmul_reduce_scatter", _matmul_scatter, "CPU")
    try:
        yield
    finally:
        library._destroy()


def engines() -> dict[str, Callable[[Artifact], Callable[..., Any]]]:
    """All that run a program without a compiler."""
    return {
        "interpreter": lambda artifact: Interpreter(artifact, py_wrapper.TORCH_MACHINE),
        "emitted Python": py_wrapper.compile,
        "FX graph": fx_converter.convert,
        "FX graph, flat": lambda artifact: fx_converter.convert(artifact, FxOptions(convention="flat")),
    }


def require_equal(rank: int, world: int, device: torch.device) -> None:
    """Checks that every engine runs the fused program with the library's results, with another part on each
    process.
    """
    torch.manual_seed(rank)
    args = [torch.randn(*sizes).to(device) for sizes in ((4, 2, 8), (16, 8), (8, 16), (16, 8))]
    for operation in ("sum", "avg") if device.type == "cuda" else ("sum",):  # gloo has no mean
        usual, other = fused(program(world, operation), str(device))
        want = py_wrapper.compile(usual)(*args)
        for make in engines().values():
            torch.testing.assert_close(tuple(make(other)(*args)), tuple(want))


def fused_matmuls(rank: int, world: int, folder: Path) -> None:
    """Runs in one of several processes with gloo."""
    with operators_of_cpu():
        require_equal(rank, world, torch.device("cpu"))
