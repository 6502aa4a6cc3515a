"""What the model itself checks with `torch._check` and its kin: conditions, the author's messages, the places.

Upstream keeps the conditions (as guards, ranges and deferred assertions) but neither the messages nor the places.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sympy
import torch

__all__ = ["ModelCheck", "recorded_checks"]

_TORCH_DIR = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """One check: its condition over symbols, the author's message ('' for none), and `File "...", line n`."""

    condition: sympy.Basic
    message: str
    place: str


@contextmanager
def recorded_checks() -> Iterator[list[ModelCheck]]:
    """The checks that are traced in this block, in their order.

    For its length `torch._check_with`, which all of `torch._check...` call, is wrapped: the message is an argument
    that it drops where the condition is symbolic. Nothing else changes: the original is always called.
    """
    checks: list[ModelCheck] = []
    original = torch._check_with

    def check_with(
        error_type: type[Exception], cond: bool | torch.SymBool, message: Callable[[], str] | None
    ) -> None:
        if isinstance(cond, torch.SymBool):
            checks.append(ModelCheck(cond.node.expr, _text(cond, message), _caller()))
        original(error_type, cond, message)  # type: ignore[arg-type]  # upstream takes None as well

    torch._check_with = check_with
    try:
        yield checks
    finally:
        torch._check_with = original


def _text(cond: torch.SymBool, message: Callable[[], str] | None) -> str:
    """The author's message; formatting a size in it must not fix that size."""
    if message is None:
        return ""
    try:
        with cond.node.shape_env.suppress_guards():
            return str(message())
    except Exception:  # the author's code, which may well need the numbers that only run time knows
        return ""


def _caller() -> str:
    """The innermost frame outside torch and this file."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename.startswith(_TORCH_DIR) and frame.f_back is not None:
        frame = frame.f_back
    return f'File "{frame.f_code.co_filename}", line {frame.f_lineno}'
