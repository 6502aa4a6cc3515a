"""External requirements of a kernel's source: headers and modules."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from functools import cache
from pathlib import Path

import torch

from wrapper_ir import ir
from wrapper_ir.support.python_syntax import parse_module
from wrapper_ir_runtime.modules import module_file, module_hash, module_origin

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
_COMPILER = "triton"
"""Triton's modules are omitted: they belong to its version."""


def required_headers(source: str) -> tuple[ir.Requirement, ...]:
    """Returns torch's headers that a C++ source includes directly; headers of the compiler are omitted."""
    names = dict.fromkeys(_INCLUDE.findall(source))
    return tuple(
        ir.Requirement(name=name, origin=module_origin("torch"), sha256=digest)
        for name in names
        if (digest := _header_hash(name))
    )


@cache
def _header_hash(name: str) -> str:
    """Returns the sha256 (hex) of a header of torch; '' for other headers."""
    include = Path(torch.__file__).parent / "include"
    for folder in (include, include / "torch" / "csrc" / "api" / "include"):
        if (path := folder / name).is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest()
    return ""


def required_modules(source: str) -> tuple[ir.Requirement, ...]:
    """Returns the modules that a Triton source imports, except those of Triton and Python."""
    names = dict.fromkeys(name for node in ast.walk(parse_module(source)) for name in _imported(node))
    return tuple(
        ir.Requirement(name=name, origin=module_origin(name), sha256=module_hash(name))
        for name in names
        if name.partition(".")[0] not in (_COMPILER, *sys.stdlib_module_names)
    )


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            inner = [f"{module}.{alias.name}" for alias in names]
            return [name if module_file(name) is not None else module for name in inner]
        case _:
            return []
