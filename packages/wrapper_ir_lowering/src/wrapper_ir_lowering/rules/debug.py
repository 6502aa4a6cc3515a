"""Rules for comments and debug values. They determine lines and file names for the interpreter and all
emitters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.expr import Expr
from wrapper_ir.support.quoting import printable
from wrapper_ir_lowering import steps
from wrapper_ir_lowering.state import FunctionState
from wrapper_ir_lowering.steps import BEFORE, Origin, Step

_PREFIXES = {
    ir.DebugPhase.BEFORE: "before_launch",
    ir.DebugPhase.AFTER: "after_launch",
    ir.DebugPhase.INPUTS: "aoti_model_inputs",
    ir.DebugPhase.OUTPUTS: "aoti_model_outputs",
    ir.DebugPhase.HERE: "",
}
"""The terms of Inductor's printer."""
_ODD = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST = 80
"""Maximum length of a name in a file name: file systems accept names of about 255 bytes."""


def comment(op: ir.Comment, state: FunctionState) -> Iterator[Step]:
    """Keeps the comment."""
    yield steps.Comment(text=op.text, at=state.at)


def debug_value(op: ir.DebugValue, state: FunctionState) -> Iterator[Step]:
    """A step for each value."""
    return debug_steps(op, state.at)


def debug_steps(
    op: ir.DebugValue, at: Origin = BEFORE
) -> Iterator[steps.ShowLine | steps.ShowValue | steps.SaveValue]:
    """The steps of the op, in order: one for each value, or a line if it has none. Numbers are not saved."""
    prefix = _PREFIXES[op.phase]
    values: tuple[ir.Value[ir.TensorType | ir.ScalarType] | Expr, ...] = (*op.values, *op.numbers)
    titles = [_joined(" - ", op.label, prefix, op.callee, _name(value)) for value in values]
    match op.mode:
        case ir.DebugMode.NAMES if not values:
            yield steps.ShowLine(text=f"[ {_joined(': ', op.label, prefix, op.callee)} ]", at=at)
        case ir.DebugMode.NAMES:
            yield from (steps.ShowLine(text=title, at=at) for title in titles)
        case ir.DebugMode.PRINT:
            for title, value in zip(titles, values, strict=True):
                yield steps.ShowValue(title=title, value=value, at=at)
        case ir.DebugMode.SAVE:
            yield from (_save(op, value, prefix, at) for value in op.values if ir.is_tensor(value))


def _save(op: ir.DebugValue, value: ir.Value[ir.TensorType], prefix: str, at: Origin) -> steps.SaveValue:
    facts = {"phase": op.phase.value, "kernel": op.callee, "arg": value.name, "dtype": value.type.dtype.value}
    parts = (_ODD.sub("_", part)[:_LONGEST] for part in (op.label, prefix, op.callee, value.name))
    return steps.SaveValue(
        value=value,
        directory=op.directory or ".",
        name="_".join(part for part in parts if part),
        metadata=json.dumps(facts, separators=(",", ":")),
        at=at,
    )


def _joined(between: str, *parts: str) -> str:
    return printable(between.join(part for part in parts if part))


def _name(value: ir.Value | Expr) -> str:
    """A value's name, or the text of an expression."""
    return value.name if isinstance(value, ir.Value) else str(value)
