"""torch's C shim: its functions by operator, as the tables of `text/` have them, and the C of a schema's parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from cpp_wrapper.sources.scope import TEXTS
from wrapper_ir import ir

C_TYPES: Mapping[str, str] = {
    "Tensor": "AtenTensorHandle", "bool": "int32_t", "int": "int64_t", "SymInt": "int64_t", "Scalar": "double",
    "float": "double", "str": "const char*", "Layout": "int32_t", "MemoryFormat": "int32_t", "ScalarType": "int32_t",
}  # fmt: skip
_AGNOSTIC = "aoti_torch_aten_"
_TYPE = re.compile(r"(\w+)(\?)?(\[\d*\])?(\?)?")


def parsed(type: str) -> tuple[str, bool, bool, bool]:
    """Base type; whether elements are optional; whether it is a list; whether it is optional."""
    match = _TYPE.fullmatch(type)
    if match is None:
        return type, False, False, False
    base, inner, is_list, outer = match.groups()
    return base, bool(inner) and bool(is_list), bool(is_list), bool(outer or (inner and not is_list))


@lru_cache
def shim_table(device: str = "cpu") -> Mapping[str, tuple[tuple[int, int], str, str]]:
    """The functions for tensors on a type of device, by operator: the oldest torch for which the function is known, its name,
    and its parameters in C. Those that take tensors on any device stand in the table of the CPU."""
    if device != "cpu":
        agnostic = {name: row for name, row in shim_table().items() if row[1].startswith(_AGNOSTIC)}
        return agnostic | _read_table(f"shims_{device}.txt")
    return _read_table("shims.txt")


def _read_table(name: str) -> dict[str, tuple[tuple[int, int], str, str]]:
    found = {}
    for line in TEXTS[name].splitlines():
        if line and not line.startswith("#"):
            version, operator, declaration = line.split(" ", 2)
            major, minor = version.split(".")
            function, _, parameters = declaration.partition("(")
            found[operator] = ((int(major), int(minor)), function, parameters.removesuffix(")"))
    return found


def c_signature(schema: ir.OpSchema) -> str:
    """The parameters of an operator's shim function, as torch generates them (`torchgen/gen_aoti_c_shim.py`): results that
    are written first, returned ones last. Empty: a type has no form in C."""
    texts = []
    for arg in sorted(schema.args, key=is_input):
        found = _c_parameters(arg.type, arg.name)
        if not found:
            return ""
        texts += found
    if not writes_arguments(schema):
        if any(r.type != "Tensor" for r in schema.returns):
            return ""
        texts += [f"AtenTensorHandle* ret{i}" for i in range(len(schema.returns))]
    return ", ".join(texts)


def c_types(parameters: str) -> list[str]:
    """The types of parameters in C: their names change from torch to torch."""
    return [text.rpartition(" ")[0] for text in parameters.split(", ")]


def is_input(arg: ir.SchemaArg) -> bool:
    """Whether it is not an `out` argument."""
    return not (arg.keyword_only and arg.written)


def writes_arguments(schema: ir.OpSchema) -> bool:
    """Whether results are written to arguments: to `out` ones, or in place."""
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
