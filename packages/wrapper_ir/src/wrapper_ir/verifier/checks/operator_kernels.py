"""Checks kernels that are operators: parameters and constants must fit the arguments of the schema."""

from __future__ import annotations

from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.errors import SchemaError
from wrapper_ir.operators.library import rebinds
from wrapper_ir.operators.policy import called_names
from wrapper_ir.operators.symmetric import needed_symmetric


def operator_faults(kernel: ir.OperatorKernel) -> Iterator[str]:
    """The faults of an operator as a kernel."""
    try:
        schema = ir.parse_schema(kernel.schema)
    except SchemaError as error:
        yield error.message
        return
    if any(rebinds(name) for name in called_names(schema.name)):
        what = "changes the memory or layout of its argument, or reads outside of it"
        yield f"{schema.name} {what}, without a check"
    params = {p.name: p for p in kernel.params}
    names = [*params, *(name for name, _ in kernel.constants)]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name} is given twice"
    declared = {a.name: a for a in schema.args}
    for name in names:
        if name not in declared:
            yield f"{schema.name} has no argument {name}"
    for name, arg in declared.items():
        param = params.get(name)
        if name not in names and arg.default is None:
            yield f"nothing gives argument {name} of {schema.name} its value"
        elif arg.written and param is None:
            yield f"{name} is written, so it is a parameter"
        elif param is not None and param.access.writes != arg.written:
            yield f"{name} is {param.access.value}, but {schema.name} says otherwise"
        elif param is not None and (param.kind is ir.ParamKind.POINTER) != arg.is_tensor:
            yield f"{name} is a {param.kind.value}, but {schema.name} takes a {arg.type}"
    for name in needed_symmetric(schema):
        yield f"{name} must be symmetric memory, which no parameter of a kernel says"
    if not any(a.written for a in schema.args):
        yield f"{schema.name} writes to none of its arguments"
