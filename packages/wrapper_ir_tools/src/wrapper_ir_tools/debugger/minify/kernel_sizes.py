"""Finds the kernels that forbid a change of sizes: those whose source may contain sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir.expr import Int, as_int

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.]*\.)")


def kernels_with_sizes(program: ir.Program, numbers: Mapping[int, int]) -> list[str]:
    """Names of launched kernels that a change of these numbers (old to new) affects and may break.

    Such a kernel has none of the old numbers among its arguments, or has one of them in its source.
    """
    kernels = {k.name: k for k in program.kernels}
    names: dict[str, None] = {}
    for op in program.ops_of(ir.Launch):
        if not any(_changes(arg, numbers) for arg in op.args):
            continue
        kernel = kernels[op.kernel]
        # it reads sizes from its arguments
        if isinstance(kernel, ir.OperatorKernel):
            continue
        is_given = any(isinstance(arg, Int) and arg.value in numbers for arg in op.args)
        literals = {int(text) for text in _NUMBER.findall(ir.source_of(kernel))}
        if isinstance(kernel, ir.MultiKernel) or not is_given or not literals.isdisjoint(numbers):
            names[op.kernel] = None
    return list(names)


def _changes(arg: ir.Arg, numbers: Mapping[int, int]) -> bool:
    match arg:
        case ir.Value(type=ir.TensorType(sizes=sizes, strides=strides)):
            return any(as_int(e) in numbers for e in (*sizes, *strides))
        case Int(value):
            return value in numbers
        case _:
            return False
