"""Files past 400 lines and functions past 60: split them by responsibility.

C++ and JavaScript files have the same limit; their functions have none. An exception needs an entry in the
table below, with the reason beside it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.checks.finding import Finding, Source

FILE_LIMIT = 400
FUNCTION_LIMIT = 60
_OTHER_LANGUAGES = (".cpp", ".h", ".js")
_NOT_OURS = ("/golden/", "/vendor/")
"""Folders of emitted files and of third-party files."""

# path, or path::function -> why it may be longer
_ALLOWED = {
    "examples/tiny_emitter/tiny_emitter.py": "one example to read from top to bottom, with a case a step",
    "packages/wrapper_ir_lowering/src/wrapper_ir_lowering/writers.py::write_step": "one arm a class of steps",
    "packages/wrapper_ir_lowering/src/wrapper_ir_lowering/rules/table.py::steps_of": "one arm a class of ops",
    "packages/inductor_frontend/tests/test_fe_symbols.py": "one table of cases, a few lines a case",
}


def find_long(source: Source) -> Iterator[Finding]:
    """Files and Python functions over the limits (decorators and docstrings count)."""
    if not source.is_python and not _other_language(source.path):
        return
    lines = source.text.count("\n")
    if lines > FILE_LIMIT and source.path not in _ALLOWED:
        yield Finding(source.path, 1, f"{lines} lines, more than {FILE_LIMIT}")
    if source.is_python:
        yield from _long_functions(source)


def _other_language(path: str) -> bool:
    return path.endswith(_OTHER_LANGUAGES) and not any(folder in path for folder in _NOT_OURS)


def _long_functions(source: Source) -> Iterator[Finding]:
    for node in ast.walk(ast.parse(source.text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > FUNCTION_LIMIT and f"{source.path}::{node.name}" not in _ALLOWED:
            yield Finding(
                source.path, node.lineno, f"`{node.name}`: {length} lines, more than {FUNCTION_LIMIT}"
            )
