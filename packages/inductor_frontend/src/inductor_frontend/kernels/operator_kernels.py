"""Library operators as candidates of multi-kernels, as alternatives to templates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import sympy

from inductor_frontend.errors import ConversionError
from inductor_frontend.kernels.extents import extents_of
from inductor_frontend.kernels.multi_kernels import Part
from inductor_frontend.operators.schemas import extern_def
from inductor_frontend.record.events import OperatorChoice, written_arguments
from inductor_frontend.scope.scope import Scope
from wrapper_ir import ir

OperatorTable = dict[ir.OperatorKernel, str]
"""Operators of a program as kernels without names -> their names."""


class OperatorKernels:
    """Creates kernels for the operators of one function that are candidates of multi-kernels."""

    def __init__(self, scope: Scope, table: OperatorTable) -> None:
        self._scope = scope
        self._table = table

    def part(
        self,
        operator: OperatorChoice,
        shared: Mapping[int, ir.Value],
        tensors: Mapping[int, ir.Value],
        out: int,
    ) -> Part:
        """Returns an operator as one of several kernels.

        `shared`: the tensor arguments of the other kernels, by position; `out` is the position of the result.
        `tensors`: the operands, in the order of the schema; an operand that is in `shared` gets its position
        there. Raises ConversionError FE301 for an argument that a kernel cannot have.
        """
        schema = operator.overload._schema
        [result] = written_arguments(operator.overload)
        free = {value: position for position, value in shared.items() if position != out}
        operands = {free.pop(value, position): value for position, value in tensors.items()}
        names = [a.name for a in schema.arguments[: len(tensors)]]
        params = [
            *(_param(name, x, ir.Access.READ) for name, x in zip(names, operands.values(), strict=True)),
            _param(result, shared[out], ir.Access.WRITE),
        ]
        args = (*operands.values(), shared[out])
        kernel = ir.OperatorKernel(
            name="",
            params=tuple(params),
            schema=extern_def(operator.overload).schema,
            constants=tuple((name, to_constant(name, value)) for name, value in operator.kwargs.items()),
        )
        return Part(
            kernel=kernel,
            positions=(*operands, out),
            args=args,
            extents=extents_of(self._scope, args, [None] * len(args)),
            grid=(),
        )

    def named(self, part: Part) -> Part:
        """Names the kernel of a part; equal kernels have the same name."""
        assert isinstance(part.kernel, ir.OperatorKernel)
        operator = part.kernel.schema.partition("(")[0].partition("::")[2].partition(".")[0].lstrip("_")
        name = self._table.setdefault(part.kernel, f"operator_{operator}_{len(self._table)}")
        return replace(part, kernel=replace(part.kernel, name=name))


def reordered(part: Part, first: Collection[int]) -> Part:
    """Moves the arguments at the positions `first` before all other arguments."""
    order = sorted(
        range(len(part.positions)), key=lambda i: (part.positions[i] not in first, part.positions[i])
    )
    return replace(
        part,
        kernel=replace(part.kernel, params=tuple(part.kernel.params[i] for i in order)),
        positions=tuple(part.positions[i] for i in order),
        args=tuple(part.args[i] for i in order),
        extents=tuple(part.extents[i] for i in order),
    )


def _param(name: str, value: ir.Value, access: ir.Access) -> ir.KernelParam:
    assert ir.is_tensor(value)
    return ir.KernelParam(name=name, kind=ir.ParamKind.POINTER, dtype=value.type.dtype, access=access)


def to_constant(name: str, value: object) -> ir.OperatorConstant:
    """Converts an argument that is not a tensor; raises ConversionError FE301 for values without a typed
    form."""
    match value:
        case sympy.Integer():
            return int(value)
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple() if all(isinstance(x, int | sympy.Integer) for x in value):
            return tuple(int(x) for x in value)
        case _:
            raise ConversionError(
                "FE301",
                f"argument {name} = {value!r} of a candidate operator has no typed form",
                hint='capture with CaptureOptions(matmuls="extern") or "templates"',
            )
