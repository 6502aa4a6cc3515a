"""Converts launches of operators to calls: the launch's arguments by the names of parameters."""

from __future__ import annotations

from collections.abc import Sequence

from wrapper_ir import ir
from wrapper_ir.expr import as_expr
from wrapper_ir_lowering import steps
from wrapper_ir_lowering.arguments import default_value


def operator_call(
    kernel: ir.OperatorKernel, values: Sequence[ir.Arg], step: steps.Launch
) -> steps.CallOperator:
    """Returns the call for a launch. The verifier has checked that each argument without default is given."""
    operator = ir.ExternInfo.of(ir.ExternDef(schema=kernel.schema))
    inputs = {name: _constant(value) for name, value in kernel.constants}
    inputs |= {param.name: value for param, value in zip(kernel.params, values, strict=True)}
    arguments = tuple(
        steps.Argument(
            schema=schema,
            value=inputs[schema.name] if schema.name in inputs else default_value(schema),
            given=steps.Given.KEYWORD if schema.name in inputs else steps.Given.DEFAULT,
            is_default=schema.name not in inputs,
        )
        for schema in operator.schema.args
    )
    return steps.CallOperator(operator=operator, arguments=arguments, stream=step.stream, at=step.at)


def _constant(value: ir.OperatorConstant) -> ir.Arg:
    match value:
        case tuple():
            return tuple(map(as_expr, value))
        case bool() | int() | float():
            return as_expr(value)
        case _:
            return value
