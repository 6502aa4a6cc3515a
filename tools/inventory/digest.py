"""A short hash of a piece of Python's syntax that stays the same across layout, comments and Python versions."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator

_LENGTH = 8
# Fields without meaning for us; `type_params` came with Python 3.12, and is empty in all sources read here.
_IGNORED = frozenset({"ctx", "kind", "type_comment", "type_ignores", "type_params"})


def _literal_parts(node: ast.JoinedStr) -> Iterator[object]:
    """The parts of an f-string; neighbouring texts are one, however the parser split them."""
    text = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            text += str(part.value)
            continue
        if text:
            yield text
            text = ""
        yield part
    if text:
        yield text


def _flat(value: object) -> str:
    match value:
        case ast.JoinedStr():
            return f"f({' '.join(_flat(p) for p in _literal_parts(value))})"
        case ast.AST():
            fields = (
                f"{name}={_flat(part)}"
                for name, part in ast.iter_fields(value)
                if name not in _IGNORED and part not in (None, [])
            )
            return f"{type(value).__name__}({' '.join(fields)})"
        case list():
            return f"[{' '.join(_flat(v) for v in value)}]"
        case _:
            return repr(value)


def _without_docstring(node: ast.AST) -> ast.AST:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node) is not None:
        copied = type(node)(**dict(ast.iter_fields(node)))
        copied.body = node.body[1:]
        return copied
    return node


def digest(node: ast.AST) -> str:
    """Eight hex digits of the syntax of `node`, without a function's docstring."""
    return hashlib.sha256(_flat(_without_docstring(node)).encode()).hexdigest()[:_LENGTH]
