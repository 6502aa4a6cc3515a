"""Ops as text, one line each: by the syntax of their classes; `alloc`, which stands for two of them; and `cond`, which is a
switch over a bool."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from wrapper_ir.expr import Int
from wrapper_ir.ops import (
    OPS,
    AllocStorage,
    Op,
    OpBase,
    OpSet,
    Provenance,
    Switch,
    View,
    ViewMode,
    is_two_way,
)
from wrapper_ir.quoting import value_name
from wrapper_ir.text.forms import value_text
from wrapper_ir.text.lexer import kind_of
from wrapper_ir.text.parser_scope import OpParser
from wrapper_ir.text.printer_types import TypePrinter
from wrapper_ir.text.syntax import OpSyntax, syntax_of
from wrapper_ir.types import MemorySpace, StorageType, TensorType

__all__ = ["ALLOC", "COND", "alloc_text", "op_text", "op_words", "read_op"]

ALLOC = "alloc"
"""The word of the one-line form of an allocation and the view of all of it."""
COND = "cond"
"""The word of a switch over a bool."""

_ZERO = Int(0)
_DEFAULT_SPACE = MemorySpace()
_NO_BYTES = StorageType(_ZERO)


@cache
def op_words(ops: OpSet = OPS) -> Mapping[str, OpSyntax]:
    """Every word that begins an op's line."""
    return {word: syntax for syntax in map(syntax_of, ops) for word in syntax.words}


def op_text(op: OpBase, types: TypePrinter) -> str:
    """The line of `op`, without indentation and provenance mark."""
    if type(op) is Switch and is_two_way(op) and len(op.branches) == 2:
        return _cond_text(op, types)
    return syntax_of(type(op)).write(op, types)


def read_op(p: OpParser, prov: Provenance) -> tuple[Op, ...]:
    """The ops of the line that starts here, up to its mark or end; all get the provenance `prov`."""
    p.start_op(prov)
    word = p.tokens[p.at]
    words = op_words(p.ops)
    syntax = words.get(word)
    if syntax is not None:
        return (syntax.read(p),)
    if word not in (ALLOC, COND):
        if kind_of(word) != "NAME":
            p.unexpected("an op")
        p.unknown("op", [*words, ALLOC, COND])
    p.at += 1
    return _alloc(p) if word == ALLOC else (_cond(p),)


# --- alloc


def alloc_text(storage: Op, view: Op, types: TypePrinter) -> str | None:
    """The one-line form; None where that would lose something."""
    if type(storage) is not AllocStorage or type(view) is not View or view.source is not storage.result:
        return None
    made, type_ = storage.result.type, view.result.type
    if type(made) is not StorageType or type(type_) is not TensorType:  # the verifier refuses them
        return None
    fits = (
        view.mode is ViewMode.ALIAS
        and view.offset == _ZERO
        and storage.result.name == f"{view.result.name}.s"
        and storage.prov == view.prov
        and made.device == type_.device
        and made.space == _DEFAULT_SPACE
        and len(type_.sizes) == len(type_.strides)
        and made.nbytes == types.extent(type_)
    )
    if not fits:
        return None
    options = syntax_of(AllocStorage).write_from(storage, types, _OPTIONS)
    return f"{value_text(view.result)} = alloc {types.type(type_)}{options}"


_OPTIONS = 2
"""The parts of an allocation's syntax after its word and its type."""


def _alloc(p: OpParser) -> tuple[Op, ...]:
    name, start = p.result_name, p.at
    type_ = p.type()
    if not isinstance(type_, TensorType):
        p.fail("WIR500", "alloc makes a tensor", start, hint="use alloc_storage")
    options = syntax_of(AllocStorage).read_from(p, _OPTIONS)
    if len(type_.sizes) != len(type_.strides):
        p.fail("WIR500", f"{len(type_.sizes)} sizes, but {len(type_.strides)} strides", start)
    storage = p.define(f"{name}.s", p.storage_of(type_), start - 3)
    result = p.define(name, type_, start - 3)
    return (
        AllocStorage(result=storage, prov=p.prov, **options),
        View(source=storage, result=result, prov=p.prov),
    )


# --- cond

_AFTER_BRANCHES = 4
"""The parts of a switch's syntax after its branches."""


def _cond_text(op: Switch, types: TypePrinter) -> str:
    syntax = syntax_of(Switch)
    head = f"{', '.join(map(value_text, op.results))} = " if op.results else ""
    index = types.arg(op.index)
    true, false = (f"@{value_name(name)}" for name in op.branches)
    return f"{head}cond {index} then {true} else {false}{syntax.write_from(op, types, _AFTER_BRANCHES)}"


def _cond(p: OpParser) -> Op:
    start, syntax = p.at, syntax_of(Switch)
    index = p.arg()
    p.expect("then")
    true = p.reference()
    p.expect("else")
    branches = (true, p.reference())
    op = syntax.finish(
        p, {**syntax.read_from(p, _AFTER_BRANCHES), "index": index, "branches": branches}, start
    )
    if not isinstance(op, Switch) or not is_two_way(op):
        p.fail("WIR096", "cond takes a bool", start, hint="use switch for an int")
    return op
