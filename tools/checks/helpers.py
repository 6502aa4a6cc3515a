"""Checks that test modules import helpers, never each other.

A helper's name states its purpose, a test module's name its subject.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

from tools.checks.finding import Finding, Source


def find_test_imports(source: Source) -> Iterator[Finding]:
    """Imports from another test module."""
    if not source.is_python:
        return
    own = PurePosixPath(source.path).stem
    for node in ast.walk(ast.parse(source.text)):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names = [a.name for a in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{name}" for name in names)]
        for name in names:
            module = name.rpartition(".")[2]
            if name.startswith(("tests.", "packages.")) and module.startswith("test_") and module != own:
                yield Finding(
                    source.path, node.lineno, f"imports from a test module, {name}: move it to a helper"
                )
