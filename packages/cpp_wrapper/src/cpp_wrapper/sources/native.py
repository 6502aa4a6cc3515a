"""The native runtime: its files, and its table of operators by schema.

A file of operators, `native/operators/<family>.cpp`, has a table beside it, `<family>.txt`: a schema a line.
The function of an operator has the parameters of torch's C shim for the schema, and the name `wir_op_`, then
the operator's name and overload. Those of CUDA devices are in `native/cuda`, and have the prefix `wir_cuda_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cpp_wrapper.errors import EmitError
from cpp_wrapper.kernels.options import OperatorSource
from cpp_wrapper.runtime_build import NATIVE_RUNTIME
from cpp_wrapper.sources.shims import c_signature
from cpp_wrapper.sources.texts import cuda_texts, native_texts
from wrapper_ir import ir
from wrapper_ir.expr import Number, evaluate
from wrapper_ir.ir import parse_schema
from wrapper_ir_lowering import Plan, steps

_INCLUDE = re.compile(r'^#include "(\w+\.h)"', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeOperator:
    """An operator of the native runtime: its schema, C++ function and parameters, and its family's file."""

    schema: ir.OpSchema
    function: str
    parameters: str
    family: str
    is_of_device: bool = False
    """True if it computes on a CUDA device."""

    @property
    def declaration(self) -> str:
        """The declaration of the function."""
        return f"int32_t {self.function}({self.parameters});"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeTables:
    """Operators by name: those of the host, and those of a CUDA device."""

    host: Mapping[str, NativeOperator]
    device: Mapping[str, NativeOperator]

    def of(self, on_device: bool) -> Mapping[str, NativeOperator]:
        """Returns the table of the host or of the device."""
        return self.device if on_device else self.host


@lru_cache
def native_operators() -> NativeTables:
    """Returns the operators of all families."""
    host, device = _table_of(native_texts(), on_device=False), _table_of(cuda_texts(), on_device=True)
    arranging = {
        name: one for name, one in host.items() if one.family in _ARRANGING and name not in _CONVERTING
    }
    return NativeTables(host=host, device={**arranging, **device})


_ARRANGING = ("views", "copies")
"""Families that only arrange elements: they accept tensors of any device."""
_CONVERTING = ("prims::convert_element_type",)
"""Their operators that compute."""


def _table_of(texts: Mapping[str, str], *, on_device: bool) -> dict[str, NativeOperator]:
    table: dict[str, NativeOperator] = {}
    for name, text in texts.items():
        family, _, suffix = name.rpartition(".")
        if suffix != "txt":
            continue
        for line in text.splitlines():
            if line and not line.startswith("#"):
                operator = native_operator(line, family, on_device=on_device)
                table[operator.schema.name] = operator
    return table


def operators_with(sources: Sequence[OperatorSource]) -> NativeTables:
    """Returns operators of all families and of a user's sources, which replace others of the same name.

    A user's operator is given tensors of the host and of a device.
    """
    tables = native_operators()
    own: dict[str, NativeOperator] = {}
    for number, source in enumerate(sources):
        for schema in source.schemas:
            operator = native_operator(schema, own_file(number))
            own[operator.schema.name] = operator
    return NativeTables(host={**tables.host, **own}, device={**tables.device, **own})


def own_file(number: int) -> str:
    """Returns the name of a user's source, without its suffix."""
    return f"own_operators_{number}"


def native_operator(schema: str, family: str, *, on_device: bool = False) -> NativeOperator:
    """Returns the row of a schema. Raises EmitError CPP502 if its types have no parameters in C."""
    operator = parse_schema(schema)
    parameters = c_signature(operator)
    if not parameters:
        raise EmitError("CPP502", f"an operator of the native runtime cannot have the schema {schema}")
    base = operator.name.partition("::")[2].replace(".", "_")
    function = f"{'wir_cuda_' if on_device else 'wir_op_'}{base}"
    return NativeOperator(
        schema=operator, function=function, parameters=parameters, family=family, is_of_device=on_device
    )


def operator_files(families: Iterable[str], sources: Sequence[OperatorSource]) -> Mapping[str, str]:
    """Returns the texts of families, and of files beside headers that they include, in a fixed order."""
    own = {f"{own_file(number)}.cpp": source.text for number, source in enumerate(sources)}
    texts = {**native_texts(), **cuda_texts(), **own}
    names: set[str] = set()
    todo = [f"{family}.cpp" for family in families]
    while todo:
        name = todo.pop()
        names.add(name)
        for header in _INCLUDE.findall(texts[name]):
            both = (header, header.replace(".h", ".cpp"))
            todo += [n for n in both if n in texts and n not in names and n not in NATIVE_RUNTIME]
    return {name: texts[name] for name in sorted(names) if name.endswith(".cpp")}


def require_operators(plan: Plan, tables: NativeTables, rewritten: Iterable[str]) -> None:
    """Raises EmitError CPP502, with all names, for operators that the tables lack, and for other schemas.

    `rewritten` are operators of the host that the emitter writes as other calls.
    """
    others = set(rewritten)
    missing: dict[str, int] = {}
    for function in plan.functions:
        for step in function.steps:
            if isinstance(step, steps.CallOperator | steps.StartCollective):
                name, on_device = step.operator.extern.name, is_on_device(step)
                table = tables.of(on_device)
                if name not in table and (on_device or name not in others):
                    name += f" on {plan.program.target.device}" if on_device else ""
                    missing[name] = missing.get(name, 0) + 1
                elif name in table:
                    _require_schema(step.operator.schema, table[name].schema)
    if missing:
        names = ", ".join(
            f"{name} ({count} calls)" if count > 1 else name for name, count in sorted(missing.items())
        )
        raise EmitError(
            "CPP502",
            f"the native runtime lacks {len(missing)} of the program's operators: {names}",
            "give C++ sources of them in CppOptions.operators, or build for torch (runtime='torch')",
        )


def is_on_device(step: steps.CallOperator | steps.StartCollective) -> bool:
    """Returns whether a call has a tensor on a device."""
    results = step.results if isinstance(step, steps.StartCollective) else (step.result,)
    values: list[ir.Arg] = [value for value in results if value is not None]
    for argument in step.arguments:
        values += argument.value if isinstance(argument.value, tuple) else [argument.value]
    return any(ir.is_tensor(value) and value.type.device != ir.CPU for value in values)


def require_offsets(plan: Plan) -> None:
    """Raises EmitError CPP503 for a program that no call can satisfy: it expects an input with an offset in
    its storage. Inputs of native libraries begin at their first element.
    """
    inputs = {param.value for param in plan.program.main.params}
    offsets: dict[str, Number] = {}
    for step in plan.main.steps:
        match step:
            case steps.Define(symbol=symbol, expr=ir.OffsetOf(value)) if value in inputs:
                offsets[symbol] = 0
            case steps.CheckCondition(condition=condition, message=message):
                symbols = condition.free_symbols
                if symbols and symbols <= offsets.keys() and not evaluate(condition, offsets):
                    raise EmitError(
                        "CPP503",
                        f"{message}: inputs of native libraries begin their storages ({condition})",
                        "capture the model with such inputs, or build for torch (runtime='torch')",
                    )
            case _:
                pass


def _require_schema(declared: ir.OpSchema, own: ir.OpSchema) -> None:
    """Raises EmitError CPP502 unless both schemas have the same types and effects."""

    def facts(schema: ir.OpSchema) -> tuple[object, ...]:
        arguments = [(a.name, a.type, a.keyword_only, a.written) for a in schema.args]
        return arguments, [result.type for result in schema.returns]

    if facts(declared) != facts(own):
        raise EmitError(
            "CPP502", f"the program calls {declared}, and the native operator is {own}", "declare both alike"
        )
