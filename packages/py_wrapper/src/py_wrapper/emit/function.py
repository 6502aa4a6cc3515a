"""Writes one function of the program."""

from __future__ import annotations

import posixpath
from contextlib import AbstractContextManager, nullcontext

from py_wrapper.emit.checks import check_layouts
from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.inputs import check_arguments
from py_wrapper.emit.kept import KeptBuffers, name_kept, write_new_buffers, write_take
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.streams import device_guard, on_stream
from py_wrapper.emit.table import WRITERS
from py_wrapper.emit.writer import WIDTH
from wrapper_ir.analysis.groups import groups_of
from wrapper_ir.ops import UNKNOWN, AllocStorage, Comment, Drop, Free, Op, Provenance, Return, Slot, View
from wrapper_ir.program import Function
from wrapper_ir.quoting import python_docstring, python_string

__all__ = ["source_comment", "write_function"]

_SILENT = (Free, Drop, Return, Comment)
_LOOK_AHEAD = 20


def write_function(scope: FunctionScope, name: str, doc: str) -> None:
    """`def name(args, s0):`, whose list of arguments is emptied, and which returns a tuple."""
    function, out = scope.function, scope.out
    is_main = function is scope.module.program.main
    kept = name_kept(scope) if is_main else KeptBuffers()
    if kept.windows:
        write_new_buffers(kept, scope)
    out.line()
    out.line()
    captures = "".join(f", {scope.define(symbol)}" for symbol in function.captures)
    with out.block(f"def {name}(args{captures}):"):
        out.line(f'"""{python_docstring(doc)}"""')
        _take_arguments(function, scope)
        if is_main:
            check_arguments(scope)
            _check_groups(scope)
            with device_guard(scope.module, out):
                _write_body(scope, kept)
        else:
            _write_body(scope, kept)


def _write_body(scope: FunctionScope, kept: KeptBuffers) -> None:
    given = f"spare.give({', '.join(write_take(kept, scope))})" if kept.windows else ""
    last = _end_of_work(scope)
    previous = ""
    for position, op in enumerate(scope.function.body):
        if last <= position < len(scope.function.body) - 1:
            continue  # returning ends all variables
        scope.position = position
        if given and isinstance(op, Return):
            scope.out.line(given)
        previous = _announce(position, previous, scope)
        with _block(op, scope):
            WRITERS[type(op)](op, scope)
        check_layouts(position, scope)


def _block(op: Op, scope: FunctionScope) -> AbstractContextManager[None]:
    """What an op is written in. An allocation may be written later, with its view, and sees to that itself."""
    return nullcontext() if isinstance(op, AllocStorage) else on_stream(op, scope)


def _take_arguments(function: Function, scope: FunctionScope) -> None:
    if function.params:
        scope.out.unpack([scope.bind(p.value) for p in function.params], "args")
    scope.out.line("args.clear()")


def _check_groups(scope: FunctionScope) -> None:
    """Before anything runs: other processes may wait for what comes first."""
    names = groups_of(scope.module.program, scope.module.analyses)
    if names:
        scope.module.runtime("fail_group")
        scope.out.items(f"{scope.module.helper(Helper.GROUPS)}(", [python_string(n) for n in names], ")")


def _end_of_work(scope: FunctionScope) -> int:
    """Position behind the last op that does more than end variables."""
    body = scope.function.body
    end = len(body) - 1
    if scope.module.options.poison is not None:
        return end
    while end > 0 and isinstance(body[end - 1], Free | Drop):
        end -= 1
    return end


def _announce(position: int, previous: str, scope: FunctionScope) -> str:
    """A comment with the source op, above everything that is done for it."""
    op = _work(position, scope)
    if op is None or op.prov == UNKNOWN or not scope.module.options.comments:
        return previous
    text = source_comment(op.prov)
    if text and text != previous:
        scope.out.gap()
        scope.out.comment(text)
    return text


def _work(position: int, scope: FunctionScope) -> Op | None:
    """The op that buffers and views at `position` are made for: the next one that computes."""
    body = scope.function.body
    for op in body[position : position + _LOOK_AHEAD]:
        if isinstance(op, AllocStorage | Slot | View):
            continue
        return None if isinstance(op, _SILENT) else op
    return None


def source_comment(prov: Provenance) -> str:
    """`addmm: addmm, t, relu (linear.py:134 in layers.0)`, in one line where possible.

    The first node, location and module are those of the op that is computed; others were fused into it. The module's
    docstring has the full names.
    """
    where = " in ".join([*(posixpath.basename(p) for p in prov.locations[:1]), *prov.modules[:1]])
    tail = f" ({where})" if where else ""
    head = f"{prov.nodes[0]}: " if prov.nodes else ""
    short = tuple(dict.fromkeys(name.removeprefix("aten.").removesuffix(".default") for name in prov.ops))
    ops = _fitting(short, WIDTH - 6 - len(tail) - len(head))
    return " ".join(f"{head if ops else head.rstrip(': ')}{ops}{tail}".split())


def _fitting(names: tuple[str, ...], room: int) -> str:
    """As many of the names as there is room for, one at least."""
    text = names[0] if names else ""
    for number, name in enumerate(names[1:], 1):
        more = ", ..." if number + 1 < len(names) else ""
        if len(text) + len(name) + len(more) + 2 > room:
            return f"{text}, ..."
        text = f"{text}, {name}"
    return text
