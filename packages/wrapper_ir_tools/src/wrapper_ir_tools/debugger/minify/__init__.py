"""Shrinks a failing program to the few ops that cause the failure, with their inputs."""

from wrapper_ir_tools.debugger.minify.checks import (
    Check,
    command_check,
    eager_check,
    engine_check,
    finite_check,
    program_check,
)
from wrapper_ir_tools.debugger.minify.eager_reference import EagerReference
from wrapper_ir_tools.debugger.minify.minifier import Minified, minify
from wrapper_ir_tools.debugger.minify.module_text import ModuleOptions, module_text

__all__ = [
    "Check",
    "EagerReference",
    "Minified",
    "ModuleOptions",
    "command_check",
    "eager_check",
    "engine_check",
    "finite_check",
    "minify",
    "module_text",
    "program_check",
]
