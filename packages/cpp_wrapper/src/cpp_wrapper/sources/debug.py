"""Writes comments, and calls that show or save values."""

from __future__ import annotations

import json

from cpp_wrapper.sources.scope import FunctionScope
from wrapper_ir.lowering import steps
from wrapper_ir.ops import DebugMode
from wrapper_ir.quoting import ascii_identifier, cpp_line_comment, cpp_string, printable
from wrapper_ir.runtime.debug import place_text
from wrapper_ir.storage.safetensors import format_name
from wrapper_ir.types import TensorType

__all__ = ["comment", "show_value"]


def comment(step: steps.Comment, scope: FunctionScope) -> None:
    """A line for readers."""
    scope.line(f"// {cpp_line_comment(step.text)}")


def show_value(step: steps.ShowValue, scope: FunctionScope) -> None:
    """The runtime prints the name, the layout and the content, or writes the content to a file."""
    value = step.value
    place = place_text(step.label, step.phase, step.kernel)
    head = printable(" ".join(part for part in (place, value.name) if part))
    if not isinstance(value.type, TensorType):
        number = scope.numbers.get(value)
        if number is None:
            raise scope.error("CPP503", f"value %{value.name} is neither a tensor nor a number")
        scope.line(f"show({number}, {cpp_string(head)}, {_flag(step.mode is not DebugMode.NAMES)});")
        return
    head += f" {value.type.dtype.value}"
    if step.mode is not DebugMode.SAVE:
        content = _flag(step.mode is DebugMode.PRINT)
        scope.line(f"show({scope.handle(value)}, {cpp_string(head)}, {content});")
        return
    # File systems take names of some 255 bytes.
    stem = "_".join(ascii_identifier(part)[:100] for part in (place, value.name) if part)
    texts = (head, f"debug_{stem}", json.dumps(value.name)[1:-1], format_name(value.type.dtype))
    scope.line(f"save({scope.handle(value)}, {', '.join(map(cpp_string, texts))});")


def _flag(value: bool) -> str:
    return "true" if value else "false"
