"""Refuses programs that call operators that a policy does not allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from wrapper_ir import ir
from wrapper_ir.operators.policy import DEFAULT_OPERATORS, OperatorPolicy, called_names, refused
from wrapper_ir.text.op_place import op_place


def check_operators(program: ir.Program, policy: OperatorPolicy = DEFAULT_OPERATORS) -> None:
    """Raises NotSupportedError WIR917 for the first call of an operator that the policy refuses."""
    refusals: dict[str, str] = {}
    for target, place in _calls(program):
        for name in called_names(target):
            if name not in refusals:
                refusals[name] = policy.refusal(name)
            if refusals[name]:
                raise refused(name, refusals[name], place())


def _calls(program: ir.Program) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yields each called operator, with a function that returns the text of the place."""
    for function in program.functions:
        for position, op in function.positions_of(ir.CallExtern, ir.CollectiveStart):
            yield op.target, partial(op_place, function, position)
    for kernel in program.kernels:
        if isinstance(kernel, ir.OperatorKernel):
            yield ir.parse_schema(kernel.schema).name, partial(str, f"kernel @{kernel.name}")
