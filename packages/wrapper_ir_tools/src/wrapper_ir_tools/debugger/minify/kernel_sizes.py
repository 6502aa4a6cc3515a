"""Which kernels a change of sizes is wrong for: those that may have sizes in their source."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wrapper_ir.expr import Expr, Int
from wrapper_ir.ir.kernels import MultiKernel, OperatorKernel
from wrapper_ir.ir.kernels.sources import source_of
from wrapper_ir.ir.ops import Arg, Launch
from wrapper_ir.ir.program import Program
from wrapper_ir.ir.types import TensorType
from wrapper_ir.ir.values import Value

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.]*\.)")


def kernels_with_sizes(program: Program, numbers: Mapping[int, int]) -> list[str]:
    """The names of launched kernels that a change of these numbers, old ones to new ones, concerns, and that may know the old
    ones: none is among what they are given, or their source has one of them."""
    kernels = {k.name: k for k in program.kernels}
    found: dict[str, None] = {}
    for op in program.ops:
        if not isinstance(op, Launch) or not any(_changes(arg, numbers) for arg in op.args):
            continue
        kernel = kernels[op.kernel]
        if isinstance(kernel, OperatorKernel):  # which reads sizes from its arguments
            continue
        is_given = any(isinstance(arg, Int) and arg.value in numbers for arg in op.args)
        written = {int(text) for text in _NUMBER.findall(source_of(kernel))}
        if isinstance(kernel, MultiKernel) or not is_given or not written.isdisjoint(numbers):
            found[op.kernel] = None
    return list(found)


def _changes(arg: Arg, numbers: Mapping[int, int]) -> bool:
    if isinstance(arg, Value):
        type = arg.type
        exprs: tuple[Expr, ...] = (*type.sizes, *type.strides) if isinstance(type, TensorType) else ()
        return any(isinstance(e, Int) and e.value in numbers for e in exprs)
    return isinstance(arg, Int) and arg.value in numbers
