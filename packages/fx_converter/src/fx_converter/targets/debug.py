"""Functions for debug output."""

from __future__ import annotations

import wrapper_ir_runtime as runtime
from fx_converter._compat import has_effect, has_elements
from wrapper_ir_runtime.debug import HostTensor


def comment(text: str) -> None:
    """Shows a line to readers of the graph."""


@has_effect
def show_line(text: str) -> None:
    """Prints a line."""
    runtime.show_line(text)


@has_effect
def show_number(title: str, value: float, kind: str) -> None:
    """Prints a number."""
    runtime.show_number(title, value, kind)


@has_effect
def show_tensor(title: str, tensor: HostTensor, dtype: str) -> None:
    """Prints a tensor; does nothing while a graph is traced with tensors without elements."""
    if has_elements(tensor):
        runtime.show_tensor(title, tensor, dtype)


@has_effect
def save_tensor(tensor: HostTensor, dtype: str, directory: str, name: str, metadata: str) -> None:
    """Writes a tensor to a file; does nothing while a graph is traced."""
    if has_elements(tensor):
        runtime.save_tensor(tensor, dtype, directory, name, metadata)
