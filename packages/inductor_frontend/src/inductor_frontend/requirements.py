"""What the source of a kernel takes from elsewhere, as the program says it."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from functools import cache
from pathlib import Path

import torch

from wrapper_ir import ir
from wrapper_ir_runtime.modules import module_file, module_hash, module_origin

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
_COMPILER = "triton"
"""Brings modules of its own, which belong to its version."""


def required_headers(source: str) -> tuple[ir.Requirement, ...]:
    """The headers that a C++ source includes itself, from outside the compiler: those of torch."""
    names = dict.fromkeys(_INCLUDE.findall(source))
    return tuple(
        ir.Requirement(name=name, origin=module_origin("torch"), sha256=digest)
        for name in names
        if (digest := _header_hash(name))
    )


@cache
def _header_hash(name: str) -> str:
    """Sha256 (hex) of one of torch's headers; '' for others."""
    include = Path(torch.__file__).parent / "include"
    for folder in (include, include / "torch" / "csrc" / "api" / "include"):
        if (path := folder / name).is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest()
    return ""


def required_modules(source: str) -> tuple[ir.Requirement, ...]:
    """The modules that a Triton source imports, but for Triton's and those of Python itself."""
    names = dict.fromkeys(name for node in ast.walk(ast.parse(source)) for name in _imported(node))
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
