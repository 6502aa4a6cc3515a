"""The face of the program model: outside `wrapper_ir/ir`, its names come from `wrapper_ir.ir` alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.checks.finding import Finding, Source

_HOME = "packages/wrapper_ir/src/wrapper_ir/ir/"


def find_inner_imports(source: Source) -> Iterator[Finding]:
    """Imports from modules inside `wrapper_ir.ir`. Private names are exempt: tests of internals need them."""
    if not source.is_python or source.path.startswith(_HOME):
        return
    for node in ast.walk(ast.parse(source.text)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("wrapper_ir.ir."):
            continue
        if public := [a.name for a in node.names if not a.name.startswith("_")]:
            names = ", ".join(f"ir.{name}" for name in public)
            yield Finding(source.path, node.lineno, f"write `from wrapper_ir import ir`, then {names}")
