"""Checks declarations: names, symbols, constants."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.verifier.checks.packed_constants import check_packed, original_name
from wrapper_ir.verifier.findings import Findings
from wrapper_ir.verifier.typeinfo import TypeTable

_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_program(analyses: Analyses, types: TypeTable, findings: Findings) -> None:
    """WIR002 to WIR009, WIR016, WIR017, WIR283."""
    program = analyses.program
    _unique("WIR002", "function @", (f.name for f in program.functions), findings)
    _unique("WIR003", "kernel @", (k.name for k in program.kernels), findings)
    _unique("WIR004", "operator ", (e.schema.partition("(")[0].strip() for e in program.externs), findings)
    _unique("WIR005", "symbol ", (s.name for s in program.symbols), findings)
    _unique("WIR006", "constant %", (c.value.name for c in program.constants), findings)
    if not program.functions:
        findings.add("WIR007", "a program starts with its main function")
    for symbol in program.symbols:
        _check_symbol(symbol, findings)
    for constant in program.constants:
        _check_constant(constant, types, findings)
    _check_names(program.constants, findings)
    _check_storages(program.constants, findings)
    check_packed(program.constants, findings)


def _unique(code: str, what: str, names: Iterable[str], findings: Findings) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            findings.add(code, f"{what}{name} is declared twice")


def _check_symbol(symbol: ir.SymbolDef, findings: Findings) -> None:
    low, high, hint = symbol.lower, symbol.upper, symbol.hint
    if low is not None and high is not None and low > high:
        findings.add("WIR008", f"{symbol.name}: no number is in [{low}, {high}]")
    elif hint is not None and ((low is not None and hint < low) or (high is not None and hint > high)):
        findings.add("WIR008", f"{symbol.name}: hint {hint} is outside its range")


def _check_constant(constant: ir.Constant, types: TypeTable, findings: Findings) -> None:
    name, type = constant.value.name, constant.value.type
    match type:
        case ir.OpaqueType(kind=ir.OpaqueKind.PACKED):
            if constant.data_hash or constant.mutable:
                findings.add("WIR009", f"%{name} is packed: it has no stored bytes, and nothing writes it")
        case ir.TensorType() if not types(type).exprs:
            if constant.data_hash and not _SHA256.fullmatch(constant.data_hash):
                findings.add("WIR009", f"%{name}: {constant.data_hash!r} is not a sha256")
        case _:
            findings.add("WIR009", f"%{name} must be a tensor of fixed sizes")
    for code, message in types(type).problems:
        findings.add(code, f"%{name}: {message}")


def _check_names(constants: Iterable[ir.Constant], findings: Findings) -> None:
    owners: dict[str, ir.Constant] = {}
    for constant in constants:
        for name in constant.names:
            if not name:
                findings.add("WIR017", f"%{constant.value.name} has an empty name in the model")
                continue
            other = owners.setdefault(name, constant)
            if other is not constant and not _is_same_original(constant, other):
                message = f"%{other.value.name} and %{constant.value.name} are both {name!r} in the model"
                findings.add("WIR017", message)


def _is_same_original(constant: ir.Constant, other: ir.Constant) -> bool:
    """Returns whether one constant is packed from the other, or both from one original."""
    if constant.packing is None and other.packing is None:
        return False
    return original_name(constant) == original_name(other)


def _check_storages(constants: Sequence[ir.Constant], findings: Findings) -> None:
    """WIR016."""
    own = {c.value.name for c in constants if not c.storage}
    first: dict[str, ir.Constant] = {}
    for constant in constants:
        name, type, offset = constant.value.name, constant.value.type, constant.offset
        if not constant.storage:
            if offset:
                findings.add("WIR016", f"%{name} has an offset, and a storage of its own")
            continue
        if not isinstance(type, ir.TensorType):
            findings.add("WIR016", f"%{name} is not a tensor, and cannot be in a storage")
            continue
        if offset < 0 or offset % type.dtype.itemsize:
            findings.add("WIR016", f"%{name}: byte {offset} is not a start of a {type.dtype.value}")
        if constant.storage in own:
            message = (
                f"%{name} is in storage {constant.storage!r}, the name of a constant with a separate storage"
            )
            findings.add("WIR016", message)
        other = first.setdefault(constant.storage, constant)
        if _placement(other) != _placement(constant):
            findings.add(
                "WIR016",
                f"%{other.value.name} and %{name} share a storage, and differ in device, mutability or "
                "whether their bytes are stored",
            )


def _placement(constant: ir.Constant) -> tuple[object, ...]:
    """The properties that constants in one storage share."""
    return ir.device_of(constant.value), constant.mutable, bool(constant.data_hash)
