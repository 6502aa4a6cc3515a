"""Writes one function of the program."""

from __future__ import annotations

from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.table import WRITERS
from py_wrapper.emit.writer import tuple_text
from wrapper_ir.ops import UNKNOWN, Comment, Drop, Free, Op, Provenance, Return
from wrapper_ir.program import Function

__all__ = ["source_comment", "write_function"]

_SILENT = (Free, Drop, Return, Comment)


def write_function(scope: FunctionScope, name: str, doc: str) -> None:
    """`def name(args, s0):`, whose list of arguments is emptied, and which returns a tuple."""
    function, out = scope.function, scope.out
    captures = "".join(f", {scope.define(symbol)}" for symbol in function.captures)
    with out.block(f"def {name}(args{captures}):"):
        out.line(f'"""{doc}"""')
        _take_arguments(function, scope)
        last = _end_of_work(scope)
        previous = ""
        for position, op in enumerate(function.body):
            if last <= position < len(function.body) - 1:
                continue  # returning ends all variables
            scope.position = position
            previous = _announce(op, previous, scope)
            WRITERS[type(op)](op, scope)


def _take_arguments(function: Function, scope: FunctionScope) -> None:
    if function.params:
        names = [scope.bind(p.value) for p in function.params]
        if len(names) == 1:
            scope.out.line(f"{tuple_text(names)} = args")
        else:
            scope.out.items("(", names, ") = args") if len(names) > 8 else scope.out.line(
                f"{', '.join(names)} = args"
            )
    scope.out.line("args.clear()")


def _end_of_work(scope: FunctionScope) -> int:
    """Position behind the last op that does more than end variables."""
    body = scope.function.body
    end = len(body) - 1
    if scope.module.options.poison is not None:
        return end
    while end > 0 and isinstance(body[end - 1], Free | Drop):
        end -= 1
    return end


def _announce(op: Op, previous: str, scope: FunctionScope) -> str:
    """A comment with the source op, where it is another one than before."""
    if isinstance(op, _SILENT) or op.prov == UNKNOWN or not scope.module.options.comments:
        return previous
    text = source_comment(op.prov)
    if text and text != previous:
        scope.out.gap()
        scope.out.comment(text)
    return text


def source_comment(prov: Provenance) -> str:
    """`relu, linear_1: aten.relu.default (mlp.py:12, in layers.0)`."""
    what = ": ".join(part for part in (", ".join(prov.nodes), ", ".join(prov.ops)) if part)
    modules = [f"in {', '.join(prov.modules)}"] if prov.modules else []
    where = ", ".join([*prov.locations, *modules])
    return f"{what} ({where})" if what and where else what or where
