"""Steps for debugging: values and comments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir import ir
from wrapper_ir.expr import Expr
from wrapper_ir_lowering.steps.base import StepBase


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLine(StepBase):
    """Prints a line. Text: `show "[ before_launch: relu ]"`."""

    syntax: ClassVar[str] = "show {text}"

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowValue(StepBase):
    """Prints a line that names a value, then the value as `wrapper_ir_runtime.tensor_text` writes it.
    Text: `show "before_launch - relu - x" %x`."""

    syntax: ClassVar[str] = "show {title} {value}"

    title: str
    value: ir.Value[ir.TensorType | ir.ScalarType] | Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveValue(StepBase):
    """Writes a tensor to a new safetensors file `name` in `directory` (see `wrapper_ir_runtime.debug`);
    `metadata` is JSON.

    Text: `save %x to "values" "before_launch_relu_x"`.
    """

    syntax: ClassVar[str] = "save {value} to {directory} {name}"

    value: ir.Value[ir.TensorType]
    directory: str
    name: str
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(StepBase):
    """A line for readers. Text: `comment "attention"`."""

    syntax: ClassVar[str] = "comment {text}"

    text: str


DebugStep = ShowLine | ShowValue | SaveValue | Comment
