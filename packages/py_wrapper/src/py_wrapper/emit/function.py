"""Writes one function of the program."""

from __future__ import annotations

import posixpath

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.lent import write_lent_windows
from py_wrapper.emit.persistent import name_persistent, write_new_buffers, write_take
from py_wrapper.emit.placement import on_stream
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.table import WRITERS
from py_wrapper.emit.writer import WIDTH
from wrapper_ir import ir
from wrapper_ir.plugins.emitted import LineOrigin
from wrapper_ir.support.quoting import python_docstring
from wrapper_ir_lowering import steps
from wrapper_ir_lowering.steps import Step
from wrapper_ir_lowering.writers import write_step

_SILENT = (ir.Free, ir.Drop, ir.Return, ir.Comment)
_LOOK_AHEAD = 20
_WINDOWS = (steps.Window, steps.ByteWindow)
_ENDS = (steps.EndStorage, steps.EndNames, steps.ResizeBlock)


def write_function(scope: FunctionScope, name: str, doc: str) -> None:
    """Writes `def name(args, s0):`, which empties its list of arguments and returns a tuple."""
    function, out = scope.plan.function, scope.out
    name_persistent(scope)
    out.origin = LineOrigin(note=f"function @{function.name}")
    if scope.plan.persistent.windows:
        write_new_buffers(scope)
    out.line()
    out.line()
    captures = "".join(f", {scope.define(symbol)}" for symbol in function.captures)
    with out.block(f"def {name}(args{captures}):"):
        out.line(f'"""{python_docstring(doc)}"""')
        out.origin = LineOrigin(note=f"arguments of @{function.name}")
        if function.params:
            out.unpack([scope.bind(p.value) for p in function.params], "args")
        out.line("args.clear()")
        if scope.plan.is_main and not function.params:  # else the check of arguments refuses them
            with out.block(f"if {scope.module.helper(Helper.MODES)}():"):
                out.line(f"{scope.module.runtime('refuse_tracers')}(torch)")
        _write_steps(scope)


def _write_steps(scope: FunctionScope) -> None:
    """Writes all steps. Those before the first op precede the persistent buffers."""
    lent = write_lent_windows(scope)
    selected = [s for s in _selected_steps(scope) if not (isinstance(s, _WINDOWS) and s.result in lent)]
    head = [step for step in selected if step.at.op is None]
    scope.out.origin = LineOrigin(note=f"checks of the arguments of @{scope.plan.name}")
    for step in head:
        write_step(step, scope, WRITERS)
    give_line = f"buffer_pool.give({', '.join(write_take(scope))})" if scope.plan.persistent.windows else ""
    previous = ""
    for step in selected[len(head) :]:
        scope.position = step.at.position
        scope.out.origin = scope.module.origins.of(scope.plan.name, scope.position)
        if give_line and isinstance(step, steps.Return):
            scope.out.line(give_line)
        previous = _announce(step, previous, scope)
        with on_stream(step, scope):
            write_step(step, scope, WRITERS)
    if any(isinstance(step, steps.EnterDevice) for step in head):
        scope.out.close_block()


def _selected_steps(scope: FunctionScope) -> list[Step]:
    """Returns the steps without those that end names before the return, which ends all variables."""
    selection = list(scope.plan.steps)
    at = len(selection) - 2
    while scope.module.options.poison is None and at >= 0 and isinstance(selection[at], _ENDS):
        if not isinstance(selection[at], steps.ResizeBlock):
            del selection[at]
        at -= 1
    return selection


def _announce(step: Step, previous: str, scope: FunctionScope) -> str:
    """Writes a comment with the source op above its lines; returns the comment."""
    op = _work(step.at.position, scope)
    if op is None or op.prov == ir.UNKNOWN or not scope.module.options.comments:
        return previous
    text = source_comment(op.prov)
    if text and text != previous:
        scope.out.gap()
        scope.out.comment(text)
    return text


def _work(position: int, scope: FunctionScope) -> ir.Op | None:
    """Returns the op that buffers and views at `position` are created for: the next one that computes."""
    body = scope.plan.function.body
    for op in body[position : position + _LOOK_AHEAD]:
        if isinstance(op, ir.Allocation | ir.View):
            continue
        return None if isinstance(op, _SILENT) else op
    return None


def source_comment(prov: ir.Provenance) -> str:
    """Returns `addmm: addmm, t, relu (linear.py:134 in layers.0)`, in one line if possible.

    The first node, location and module are those of the computed op; others were fused into it. The module's
    docstring has the full names.
    """
    place = " in ".join([*(posixpath.basename(p) for p in prov.locations[:1]), *prov.modules[:1]])
    tail = f" ({place})" if place else ""
    head = f"{prov.nodes[0]}: " if prov.nodes else ""
    short = tuple(dict.fromkeys(name.removeprefix("aten.").removesuffix(".default") for name in prov.ops))
    ops = _fitting(short, WIDTH - 6 - len(tail) - len(head))
    return " ".join(f"{head if ops else head.rstrip(': ')}{ops}{tail}".split())


def _fitting(names: tuple[str, ...], width: int) -> str:
    """Returns as many of the names as fit in the width, at least one."""
    text = names[0] if names else ""
    for number, name in enumerate(names[1:], 1):
        more = ", ..." if number + 1 < len(names) else ""
        if len(text) + len(name) + len(more) + 2 > width:
            return f"{text}, ..."
        text = f"{text}, {name}"
    return text
