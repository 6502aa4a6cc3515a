"""Torch's C shim: functions by operator (tables in `text/`), and C parameters of a schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from cpp_wrapper.sources.texts import TEXTS
from wrapper_ir import ir

C_TYPES: Mapping[str, str] = {
    "Tensor": "AtenTensorHandle", "str": "const char*", "bool": "int32_t",
    "int": "int64_t", "SymInt": "int64_t", "Scalar": "double", "float": "double",
    "Layout": "int32_t", "MemoryFormat": "int32_t", "ScalarType": "int32_t",
}  # fmt: skip
LIST = "Tensor[]"
"""The type of results whose number depends on the call."""
GENERATOR = "Generator?"
"""The type of arguments without a parameter: programs draw from the default generator."""
_AGNOSTIC = "aoti_torch_aten_"
_TYPE = re.compile(r"(\w+)(\?)?(\[\d*\])?(\?)?")


def parsed(type: str) -> tuple[str, bool, bool, bool]:
    """Returns the base type, and whether elements are optional, it is a list, and it is optional."""
    match = _TYPE.fullmatch(type)
    if match is None:
        return type, False, False, False
    base, inner, is_list, outer = match.groups()
    return base, bool(inner) and bool(is_list), bool(is_list), bool(outer or (inner and not is_list))


@lru_cache
def shim_table(device: str = "cpu") -> Mapping[str, tuple[tuple[int, int], str, str]]:
    """Returns the functions for tensors on a device type, by operator: oldest known torch, name, and C
    parameters.

    Functions for tensors on any device are in the table of the CPU.
    """
    if device != "cpu":
        agnostic = {name: row for name, row in shim_table().items() if row[1].startswith(_AGNOSTIC)}
        return agnostic | _read_table(f"shims_{device}.txt")
    return _read_table("shims.txt")


def _read_table(name: str) -> dict[str, tuple[tuple[int, int], str, str]]:
    table = {}
    for line in TEXTS[name].splitlines():
        if line and not line.startswith("#"):
            version, operator, declaration = line.split(" ", 2)
            major, minor = version.split(".")
            function, _, parameters = declaration.partition("(")
            table[operator] = ((int(major), int(minor)), function, parameters.removesuffix(")"))
    return table


def c_signature(schema: ir.OpSchema) -> str:
    """Returns the parameters of an operator's shim function, as torch generates them
    (`torchgen/gen_aoti_c_shim.py`).

    Written results come first, returned ones last. Empty if a type cannot be expressed in C. Torch has no
    function for operators that return lists: here those are a pointer and the number of tensors that the
    caller takes, the first ones.
    """
    texts = []
    for arg in sorted(schema.args, key=is_input):
        if arg.type == GENERATOR:
            continue
        parameters = _c_parameters(arg.type, arg.name)
        if not parameters:
            return ""
        texts += parameters
    if not writes_arguments(schema):
        if any(r.type not in ("Tensor", LIST) for r in schema.returns):
            return ""
        for i, result in enumerate(schema.returns):
            texts += [f"AtenTensorHandle* ret{i}", *([f"int64_t ret{i}_len_"] if result.type == LIST else ())]
    return ", ".join(texts)


def c_types(parameters: str) -> list[str]:
    """Returns the C types of parameters, whose names differ between torch versions."""
    return [text.rpartition(" ")[0] for text in parameters.split(", ")]


def is_input(arg: ir.SchemaArg) -> bool:
    """Returns whether an argument is not an `out` argument."""
    return not (arg.keyword_only and arg.written)


def writes_arguments(schema: ir.OpSchema) -> bool:
    """Returns whether results are written to arguments: to `out` ones, or in place."""
    base = schema.name.partition("::")[2].partition(".")[0]
    return any(a.written and (a.keyword_only or base.endswith("_")) for a in schema.args)


def _c_parameters(type: str, name: str) -> list[str]:
    base, inner, is_list, optional = parsed(type)
    if base == "Device" and not is_list:
        star = "*" if optional else ""
        return [f"int32_t{star} {name}", f"int32_t {name}_index_"]
    c_type = C_TYPES.get(base)
    if c_type is None:
        return []
    if is_list:
        stars = "**" if inner or optional else "*"
        return [f"const {c_type}{stars} {name}", f"int64_t {name}_len_"]
    return [
        f"{c_type}* {name}" if optional and base != "str" else f"{c_type}{'*' if optional else ''} {name}"
    ]
