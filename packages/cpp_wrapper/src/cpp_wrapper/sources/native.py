"""The native runtime: its files, and its table of operators by schema.

A file of operators, `native/<family>.cpp`, has a table beside it, `native/<family>.txt`: a schema a line. The
function of an operator has the parameters of torch's C shim for the schema, and the name `wir_op_`, then the
operator's name and overload.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cpp_wrapper.errors import EmitError
from cpp_wrapper.runtime_build import NATIVE_RUNTIME
from cpp_wrapper.sources.shims import c_signature
from wrapper_ir import ir
from wrapper_ir.ir import parse_schema
from wrapper_ir_lowering import Plan, steps

NATIVE = "native"
"""The name of the runtime in `CppOptions.runtime`."""
_FOLDER = Path(__file__).parents[1] / "native"
NATIVE_TEXTS = {
    path.name: path.read_text(encoding="utf-8") for path in sorted(_FOLDER.iterdir()) if path.is_file()
}
"""The native runtime's files by name; those of torch's runtime with the same name are replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeOperator:
    """An operator of the native runtime: its schema, C++ function and parameters, and its family's file."""

    schema: ir.OpSchema
    function: str
    parameters: str
    family: str

    @property
    def declaration(self) -> str:
        """The declaration of the function."""
        return f"int32_t {self.function}({self.parameters});"


@lru_cache
def native_operators() -> Mapping[str, NativeOperator]:
    """Returns the operators of all families by name."""
    table: dict[str, NativeOperator] = {}
    for name, text in NATIVE_TEXTS.items():
        family, _, suffix = name.rpartition(".")
        if suffix != "txt":
            continue
        for line in text.splitlines():
            if line and not line.startswith("#"):
                operator = native_operator(line, family)
                table[operator.schema.name] = operator
    return table


_INCLUDE = re.compile(r'#include "(\w+)\.h"')


def with_helpers(families: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of the C++ files of families and of the files that they share, in order.

    A header stands for the C++ file of the same name, unless that is a part of the runtime.
    """
    names: set[str] = set()
    waiting = list(families)
    while waiting:
        name = waiting.pop()
        if f"{name}.cpp" not in NATIVE_TEXTS or f"{name}.cpp" in NATIVE_RUNTIME or name in names:
            continue
        names.add(name)
        texts = (NATIVE_TEXTS.get(f"{name}.{suffix}", "") for suffix in ("cpp", "h"))
        waiting += (match for text in texts for match in _INCLUDE.findall(text))
    return tuple(sorted(names))


def native_operator(schema: str, family: str) -> NativeOperator:
    """Returns the row of a schema. Raises EmitError CPP502 if its types have no parameters in C."""
    operator = parse_schema(schema)
    parameters = c_signature(operator)
    if not parameters:
        raise EmitError("CPP502", f"an operator of the native runtime cannot have the schema {schema}")
    base = operator.name.partition("::")[2].replace(".", "_")
    return NativeOperator(schema=operator, function=f"wir_op_{base}", parameters=parameters, family=family)


def require_operators(plan: Plan, rewritten: Iterable[str]) -> None:
    """Raises EmitError CPP502, with all names, for operators that the native runtime lacks.

    `rewritten` are operators that the emitter writes as other calls.
    """
    available = {*native_operators(), *rewritten}
    missing: dict[str, int] = {}
    for function in plan.functions:
        for step in function.steps:
            if isinstance(step, steps.CallOperator | steps.StartCollective):
                name = step.operator.extern.name
                if name not in available:
                    missing[name] = missing.get(name, 0) + 1
    if missing:
        names = ", ".join(
            f"{name} ({count} calls)" if count > 1 else name for name, count in sorted(missing.items())
        )
        raise EmitError(
            "CPP502",
            f"the native runtime lacks {len(missing)} of the program's operators: {names}",
            "give C++ sources of them in CppOptions.operators, or build for torch (runtime='torch')",
        )
