"""Refuses programs that call operators which a policy does not allow."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.operators.policy import DEFAULT_OPERATORS, OperatorPolicy, called_names, refused
from wrapper_ir.text.op_place import op_place


def check_operators(program: ir.Program, policy: OperatorPolicy = DEFAULT_OPERATORS) -> None:
    """Raises NotSupportedError WIR917 for the first operator that a program calls and may not."""
    refusals: dict[str, str] = {}
    for target, function, position in _calls(program):
        for name in called_names(target):
            if name not in refusals:
                refusals[name] = policy.refusal(name)
            if refusals[name]:
                raise refused(name, refusals[name], _place(program, function, position))


def _calls(program: ir.Program) -> Iterator[tuple[str, int, int]]:
    """Operator, number of the function, position; for a kernel that is an operator, -1 and the kernel's number."""
    for number, function in enumerate(program.functions):
        for position, op in enumerate(function.body):
            if isinstance(op, ir.OperatorCall):
                yield op.target, number, position
    for number, kernel in enumerate(program.kernels):
        if isinstance(kernel, ir.OperatorKernel):
            yield ir.parse_schema(kernel.schema).name, -1, number


def _place(program: ir.Program, function: int, position: int) -> str:
    if function < 0:
        return f"kernel @{program.kernels[position].name}"
    return op_place(program.functions[function], position)
