"""Syntax trees of Python text, in any thread.

CPython 3.11 and 3.12 count the depth of a tree that they build in one place for all threads. If two threads
parse at once, one of them may raise "SystemError: AST constructor recursion depth mismatch" for correct text
(python/cpython#106905). Threads that parse here wait for each other, and parse again if a thread of torch or
Triton was in the way.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

T = TypeVar("T")
_LOCK = Lock()
_ATTEMPTS = 20


def parse_module(text: str) -> ast.Module:
    """Returns the tree of a module. Raises SyntaxError and ValueError, as `ast.parse` does."""
    return _parse(lambda: ast.parse(text))


def parse_expression(text: str) -> ast.expr:
    """Returns the tree of an expression. Raises SyntaxError and ValueError, as `ast.parse` does."""
    return _parse(lambda: ast.parse(text, mode="eval")).body


def _parse(parse: Callable[[], T]) -> T:
    with _LOCK:
        for _ in range(_ATTEMPTS):
            try:
                return parse()
            except SystemError:
                pass
        return parse()
