"""A program whose sums become kernels over symmetric memory, and torch's kernels and memory for a CPU, where
torch has neither.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.distributed import _functional_collectives

import py_wrapper
from tests.collectives.fused_cases import DECLARATIONS, engines
from wrapper_ir import ir, parse_program, print_program
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.plain_functions import PLAIN_FUNCTIONS
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_passes import run_pipeline
from wrapper_ir_torch import Repeaters, torch_operators

# Any in this file: untyped parts of torch
_funcol: Any = _functional_collectives
_SUMS = """wir 0.5
target cuda:0

DECLARATIONS
func @main(%x: f32[16, 4], %w: f32[4, 4]) {
  %a = alloc f32[16, 4]
  call aten::mm.out(%x, %w, out=%a)
  %h = collective _c10d_functional::all_reduce(%a, "sum", "0") group("0") : f32[16, 4]
  %s = wait %h : f32[16, 4]
  %b = alloc f32[16, 4]
  call aten::mm.out(%a, %w, out=%b)
  %r = collective _c10d_functional::reduce_scatter_tensor(%b, "sum", WORLD, "0") group("0") : f32[ROWS, 4]
  %t = wait %r : f32[ROWS, 4]
  %q = collective _c10d_functional::reduce_scatter_tensor(%x, "sum", WORLD, "0") group("0") : f32[ROWS, 4]
  %u = wait %q : f32[ROWS, 4]
  %c = alloc f32[16, 4]
  call aten::mm.out(%s, %w, out=%c)
  %k = collective _c10d_functional::all_reduce_(%c, "sum", "0") group("0") : f32[16, 4]
  %v = wait %k : f32[16, 4]
  return %s, %t, %u, %v
}
"""
OPTIONS = ("", "one-shot-all-reduce-threshold-bytes=0")
"""Options of `lower-collectives`: sums in one step; in two, which overwrite their operand."""


def program(world: int) -> ir.Program:
    """A program for a GPU: sums of tensors that are read later, and in place; shares of a sum, also of an
    input.
    """
    text = _SUMS.replace("DECLARATIONS", DECLARATIONS.rstrip())
    return parse_program(text.replace("WORLD", str(world)).replace("ROWS", str(16 // world)))


def lowered_pair(program: ir.Program, options: str, device: str = "cpu") -> tuple[Artifact, Artifact]:
    """A program for a GPU as it is and with kernels; on a CPU only symmetric memory stays the GPU's."""
    made = [
        run_pipeline(program, passes)
        for passes in ("derive-frees", f"derive-frees,lower-collectives{{{options}}}")
    ]
    if device == "cpu":
        usual, other = map(_for_cpu, made)
    else:
        usual, other = (parse_program(print_program(p).replace("cuda:0", device)) for p in made)
    return bare_artifact(usual), bare_artifact(other)


def _for_cpu(program: ir.Program) -> ir.Program:
    analyses, cpu = Analyses(program), ir.Device("cpu")

    def moved(function: ir.Function) -> ir.Function:
        roots = analyses.aliasing(function).roots
        symmetric = {
            op.result
            for op in function.body
            if isinstance(op, ir.AllocStorage) and op.result.type.is_symmetric
        }
        new: dict[ir.Value, ir.Value] = {}

        def value(old: ir.Value) -> ir.Value:
            is_symmetric = any(root in symmetric for root in roots.get(old, (old,)))
            if is_symmetric or not isinstance(old.type, ir.StorageType | ir.TensorType):
                return old
            return new.setdefault(old, ir.Value(old.name, dataclasses.replace(old.type, device=cpu)))

        return ir.map_function(function, value)

    functions = [moved(f) for f in program.functions]
    return dataclasses.replace(program.with_functions(functions), target=ir.Target(device=cpu))


@contextmanager
def on_host(total: Callable[[Tensor, str], Tensor], rank: int, world: int) -> Iterator[None]:
    """Makes torch's kernels over symmetric memory work on CPU tensors, with host memory as symmetric memory.

    `total` sums a tensor over the processes of a group. A kernel whose schema writes its operand leaves no
    number in it.
    """
    torch_operators("symm_mem")  # their declarations

    def one_shot(input: Tensor, operation: str, group: str, out: Tensor) -> Tensor:
        assert operation == "sum"
        return out.copy_(total(input, group))

    def two_shot(input: Tensor, operation: str, group: str, out: Tensor) -> Tensor:
        one_shot(input, operation, group, out)
        input.fill_(torch.nan)
        return out

    def scatter(input: Tensor, group: str, by_columns: bool, out: Tensor) -> Tensor:
        assert (by_columns, input.dim(), out.dim(), input.numel()) == (False, 1, 1, world * out.numel())
        out.copy_(total(input, group).reshape(world, -1)[rank])
        input.fill_(torch.nan)
        return out

    def allocate(sizes: Any, strides: Any, dtype: Any, device: Any, group: str, id: int) -> Tensor:
        return torch.empty_strided(sizes, strides, dtype=dtype)

    library: Any = torch.library.Library("symm_mem", "IMPL")  # type: ignore[no-untyped-call]  # torch's own
    library.impl("one_shot_all_reduce_out", one_shot, "CPU")
    library.impl("two_shot_all_reduce_out", two_shot, "CPU")
    library.impl("reduce_scatter_out", scatter, "CPU")

    def plain(self: Repeaters, name: str, device: ir.Device, calls: int) -> Callable[..., Any]:
        # also where other tests have loaded a fake of the driver
        function: Callable[..., Any] = getattr(torch, PLAIN_FUNCTIONS[name])
        return function

    memory = torch._C._distributed_c10d._SymmetricMemory
    try:
        with (
            mock.patch.object(memory, "empty_strided_p2p", staticmethod(allocate)),
            mock.patch.object(Repeaters, "operator", plain),
        ):
            yield
    finally:
        library._destroy()


def over_group(tensor: Tensor, group: str) -> Tensor:
    """The sum over the processes of a group, by the library's collective."""
    made: Tensor = _funcol.wait_tensor(_funcol.all_reduce(tensor, "sum", group))
    return made


def require_equal(rank: int, world: int, device: torch.device) -> None:
    """Checks that every engine runs the lowered program with the library's results, with other numbers on
    each process.
    """
    torch.manual_seed(rank)
    x, w = torch.randn(16, 4).to(device), torch.randn(4, 4).to(device)
    for options in OPTIONS:
        usual, other = lowered_pair(program(world), options, str(device))
        want = py_wrapper.compile(usual)(x, w)
        for make in engines().values():
            run = make(other)
            for _ in range(2):
                torch.testing.assert_close(tuple(run(x, w)), tuple(want))


def lowered_kernels(rank: int, world: int, folder: Path) -> None:
    """Runs in one of several processes with gloo."""
    with on_host(over_group, rank, world):
        require_equal(rank, world, torch.device("cpu"))
