"""Lines of ops, by the syntax of their classes.

Two short forms are written by hand: `alloc` for an allocation with a view, and `cond` for a switch over a
bool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Never, TypeVar, cast

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int
from wrapper_ir.support.quoting import value_name
from wrapper_ir.support.tokens import kind_of
from wrapper_ir.text.op_parser import OpParser
from wrapper_ir.text.parts import Fields, Writer
from wrapper_ir.text.printer_types import TypePrinter
from wrapper_ir.text.syntax import Syntax, compile_syntax, syntax_of

ALLOC = "alloc"
"""First word of the short form of an allocation and a view of all of it."""
COND = "cond"
"""First word of a switch over a bool."""
LAYOUT = "assert_layout"
"""First word of a layout check, in which each tensor is followed by its sizes and strides."""

OpT = TypeVar("OpT", bound=ir.OpBase)
_ZERO = Int(0)
_DEFAULT_SPACE = ir.MemorySpace()


@cache
def op_words(ops: ir.OpSet = ir.OPS) -> Mapping[str, Syntax[ir.OpBase]]:
    """Returns the syntax of each op by its first word."""
    return {word: syntax for syntax in map(syntax_of, ops) for word in syntax.words}


@ir.per_class
def line_writer(cls: type[ir.OpBase]) -> Writer:
    """Returns the writer of lines of ops of a class, without indentation and provenance mark."""
    return cast("Writer", _BY_HAND.get(cls, syntax_of(cls).write))  # the table pairs classes and writers


def op_text(op: ir.OpBase, types: TypePrinter) -> str:
    """Returns the line of `op`, without indentation and provenance mark."""
    return line_writer(type(op))(op, types)


def read_op(
    p: OpParser, words: Mapping[str, Syntax[ir.OpBase]], prov: ir.Provenance
) -> tuple[ir.OpBase, ...]:
    """Parses the ops of a line, up to its provenance mark or end.

    `words` has the allowed ops by their first words. All ops of the line get the provenance `prov`.
    """
    p.start_op(prov)
    word = p.tokens[p.at]
    read = _READ_BY_HAND.get(word)
    if read is not None:
        return read(p)
    syntax = words.get(word)
    if syntax is None:
        if kind_of(word) != "NAME":
            p.unexpected("an op")
        p.unknown("op", [*words, ALLOC, COND])
    return (syntax.read(p),)


def _tail(cls: type[OpT], after: str) -> Syntax[OpT]:
    """Compiles the part of a class's syntax after the text `after`."""
    return compile_syntax(cls, cls.syntax.partition(after)[2])


# --- alloc


def alloc_text(storage: ir.AllocStorage, view: ir.Op, types: TypePrinter) -> str | None:
    """Returns the short form; None if it would lose information."""
    if type(view) is not ir.View or view.source is not storage.result:
        return None
    host, type_, name = storage.result.type, view.result.type, view.result.name
    if type(host) is not ir.StorageType or type(type_) is not ir.TensorType:  # the verifier refuses them
        return None
    if len(type_.sizes) != len(type_.strides):
        return None
    printed = types.tensor(type_)
    # Comparing tuples skips calls for identical members, which most are.
    usual = (view.prov, ir.ViewMode.ALIAS, _ZERO, f"{name}.s", type_.device, _DEFAULT_SPACE, printed.extent)
    actual = (storage.prov, view.mode, view.offset, storage.result.name, host.device, host.space, host.nbytes)
    if actual != usual or host.alignment != ir.DEFAULT_ALIGNMENT:
        return None
    return f"%{value_name(name)} = alloc {printed.text}{_OPTIONS.write(storage, types)}"


_OPTIONS = _tail(ir.AllocStorage, "{result:storage}")


def _alloc(p: OpParser) -> tuple[ir.OpBase, ...]:
    p.at += 1
    name, start = p.result_name, p.at
    type_ = p.type()
    if not isinstance(type_, ir.TensorType):
        p.fail("WIR500", "alloc makes a tensor", start, hint="use alloc_storage")
    options: Fields = {}
    if p.tokens[p.at] != "\n":
        _OPTIONS.fields(p, options)
    if len(type_.sizes) != len(type_.strides):
        p.fail("WIR500", f"{len(type_.sizes)} sizes, but {len(type_.strides)} strides", start)
    storage = p.define(f"{name}.s", p.storage_of(type_), start - 3)
    result = p.define(name, type_, start - 3)
    allocation = _OPTIONS.cls(result=storage, prov=p.prov, **options)
    return allocation, ir.View(source=storage, result=result, prov=p.prov)


# --- cond

_TO_BRANCHES = compile_syntax(ir.Switch, "{results} = cond {index} then ")
_AFTER_BRANCHES = _tail(ir.Switch, "]")


def _switch_text(op: ir.Switch, types: TypePrinter) -> str:
    if not ir.is_two_way(op) or len(op.branches) != 2:
        return syntax_of(ir.Switch).write(op, types)
    true, false = (f"@{value_name(name)}" for name in op.branches)
    return f"{_TO_BRANCHES.write(op, types)}{true} else {false}{_AFTER_BRANCHES.write(op, types)}"


def _cond(p: OpParser) -> tuple[ir.OpBase, ...]:
    start = p.at + 1
    fields: Fields = {}
    _TO_BRANCHES.fields(p, fields)
    true = p.reference()
    p.expect("else")
    fields["branches"] = (true, p.reference())
    _AFTER_BRANCHES.fields(p, fields)
    op = _AFTER_BRANCHES.finish(p, fields, start)
    if not ir.is_two_way(op):
        p.fail("WIR096", "cond takes a bool", start, hint="use switch for an int")
    return (op,)


# --- assert_layout

_AFTER_TENSORS = _tail(ir.AssertLayout, "{tensors}")


def _layouts_text(op: ir.AssertLayout, types: TypePrinter) -> str:
    texts = []
    for tensor, sizes, strides in zip(op.tensors, op.sizes, op.strides, strict=False):
        is_checked = sizes or strides or not op.alignment
        numbers = f" [{types.exprs(sizes)}] [{types.exprs(strides)}]" if is_checked else ""
        texts.append(f"{types.arg(tensor)}{numbers}")
    return f"{LAYOUT} {', '.join(texts)}{_AFTER_TENSORS.write(op, types)}"


def _layouts(p: OpParser) -> tuple[ir.OpBase, ...]:
    p.at += 1
    start = p.at
    tensors, sizes, strides = zip(*p.several(_layout), strict=True)
    fields: Fields = {"tensors": tensors, "sizes": sizes, "strides": strides}
    _AFTER_TENSORS.fields(p, fields)
    return (_AFTER_TENSORS.finish(p, fields, start),)


def _layout(p: OpParser) -> tuple[ir.Value, tuple[Expr, ...], tuple[Expr, ...]]:
    tensor = p.value()
    return (tensor, p.exprs("[", "]"), p.exprs("[", "]")) if p.tokens[p.at] == "[" else (tensor, (), ())


_BY_HAND: Mapping[type[ir.OpBase], Callable[[Never, TypePrinter], str]] = {
    ir.Switch: _switch_text,
    ir.AssertLayout: _layouts_text,
}
"""Writers of ops whose lines do not follow the syntax of their class alone."""
_READ_BY_HAND: Mapping[str, Callable[[OpParser], tuple[ir.OpBase, ...]]] = {
    ALLOC: _alloc,
    COND: _cond,
    LAYOUT: _layouts,
}
"""Readers of the lines that begin with these words."""
