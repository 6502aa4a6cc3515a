"""Puts a module together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py_wrapper.emit.examples import write_examples
from py_wrapper.emit.function import write_function
from py_wrapper.emit.header import write_header
from py_wrapper.emit.helpers import HELPERS
from py_wrapper.emit.memory import constant_view
from py_wrapper.emit.module import ModuleScope
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.signature import write_forward
from py_wrapper.emit.writer import Writer, quoted, tuple_text
from py_wrapper.native import overload_path
from py_wrapper.options import PyOptions
from wrapper_ir.artifact import Artifact
from wrapper_ir.kernels import KernelDef
from wrapper_ir.program import Constant, Function
from wrapper_ir.runtime.kernel_files import TABLE, kernel_file_names, kernel_source, kernel_table
from wrapper_ir.types import TensorType

__all__ = ["EmittedModule", "emit_module"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedModule:
    """The text of a module and of the files beside it (by relative name); constants are the artifact's."""

    name: str
    source: str
    files: Mapping[str, str]
    kernels: Sequence[KernelDef]

    def __str__(self) -> str:
        return self.source


_BOXED = '''
def boxed(args):
    """The flat calling convention: takes a list, which it empties, and returns a tuple. Nothing is recorded for
    autograd, and autocast does not apply."""
    grad = torch.is_grad_enabled()
    if grad:
        torch._C._set_grad_enabled(False)
    try:
        if torch._C._is_any_autocast_enabled():
            with torch._C._DisableAutocast():
                return {main}(args)
        return {main}(args)
    except Exception as error:
        raise explain(error, __file__) from error
    finally:
        if grad:
            torch._C._set_grad_enabled(True)
'''
_SCRIPT = """
if __name__ == "__main__":
    from wrapper_ir.runtime.script import run_script

    run_script(globals(), torch)
"""


def emit_module(artifact: Artifact, options: PyOptions) -> EmittedModule:
    """The module for an artifact. Raises NotSupportedError (WIR91n), EmitError (PY1nn)."""
    scope = ModuleScope(artifact.program, options)
    body = Writer()
    callees = artifact.program.functions[1:]
    for function in (*callees, artifact.program.main):
        _write_function(function, scope, body)
    _paragraph(_BOXED.format(main=scope.function_names[artifact.program.main.name]), body)
    body.line()
    body.line()
    write_forward(scope, artifact.signature, body)
    write_examples(scope, body)
    kernels = [k for k in artifact.program.kernels if k.name in scope.kernel_names]
    head = Writer()
    write_header(artifact, scope, kernels, head)
    _write_prologue(artifact, scope, kernels, "math." in body.text(), head)
    _paragraph(_SCRIPT, body)
    files = {kernel_file_names(kernels)[k.name]: kernel_source(k) for k in kernels}
    if kernels:
        files[TABLE] = kernel_table(kernels, artifact.program.target)
    return EmittedModule(
        name=options.name, source=head.text() + body.text(), files=files, kernels=tuple(kernels)
    )


def _paragraph(text: str, out: Writer) -> None:
    out.line()
    out.line()
    for line in text.strip("\n").splitlines():
        out.line(line)


def _write_function(function: Function, scope: ModuleScope, out: Writer) -> None:
    out.line()
    out.line()
    is_main = function is scope.program.main
    doc = "The program, on flat arguments." if is_main else f"Subgraph @{function.name}."
    write_function(FunctionScope(scope, function, out), scope.function_names[function.name], doc)


def _write_prologue(
    artifact: Artifact, scope: ModuleScope, kernels: Sequence[KernelDef], uses_math: bool, out: Writer
) -> None:
    views = [
        (name, constant_view(op, source, scope)) for (source, _, _), (name, op) in scope.hoisted_views.items()
    ]
    _write_imports(scope, uses_math, out)
    for helper, text in HELPERS.items():
        if helper in scope.helpers and not text.startswith("\n"):
            out.line(text)
    for name, path in scope.extern_globals.items():
        out.line(f"{path} = torch.ops.{'.'.join(overload_path(name))}")
    for type_name, name in scope.classes.items():
        out.line(f"{name} = class_of({quoted(type_name)})")
    for spec, (flatten, build) in scope.containers.items():
        out.items(
            f"{flatten}, {build} = custom_container(",
            ["torch.utils._pytree", quoted(spec.type_name), quoted(spec.context)],
            ")",
        )
    _write_parts(artifact, scope, kernels, views, out)
    for helper, text in HELPERS.items():
        if helper in scope.helpers and text.startswith("\n"):
            _paragraph(
                text.replace("{poison:#04x}", f"{scope.options.poison or 0:#04x}").replace(
                    "{poison}", str(scope.options.poison)
                ),
                out,
            )


def _write_imports(scope: ModuleScope, uses_math: bool, out: Writer) -> None:
    if uses_math:
        out.line("import math")
        out.line()
    out.line("import torch")
    names = sorted({"explain", "open_parts", *scope.runtime_names})
    out.items("from wrapper_ir.runtime import ", names, "") if len(names) < 5 else out.items(
        "from wrapper_ir.runtime import (", names, ")"
    )
    out.line()


def _write_parts(
    artifact: Artifact,
    scope: ModuleScope,
    kernels: Sequence[KernelDef],
    views: Sequence[tuple[str, str]],
    out: Writer,
) -> None:
    if not kernels and not scope.constant_names:
        return
    out.gap()
    out.line("parts = open_parts(__file__, __spec__)  # what lies beside this file")
    if kernels:
        out.gap()
        out.line("kernels = parts.load_kernels()")
        for name, variable in scope.kernel_names.items():
            out.line(f"{variable} = kernels[{quoted(name)}]")
    if scope.constant_names:
        out.gap()
        for constant in artifact.program.constants:
            _write_constant(constant, scope.constant_names[constant.value], out)
    for name, text in views:
        out.line(f"{name} = {text}")


def _write_constant(constant: Constant, name: str, out: Writer) -> None:
    type = constant.value.type
    assert isinstance(type, TensorType)
    sizes, strides = (_ints(part) for part in (type.sizes, type.strides))
    dtype = f"torch.{type.dtype.torch_name}"
    to = f".to({quoted(str(type.device))})" if type.device.type != "cpu" else ""
    if 0 in [int(str(e)) for e in type.sizes]:
        out.line(f"{name} = torch.empty_strided({sizes}, {strides}, dtype={dtype}){to}")
        return
    own = ".clone()" if constant.mutable else ""
    load = f"parts.constant({quoted(constant.value.name)}, torch.frombuffer, {dtype}){own}{to}"
    out.line(f"{name} = {load}.as_strided({sizes}, {strides})")


def _ints(exprs: Sequence[Any]) -> str:  # Any: expressions; constants have static layouts
    return tuple_text([str(e) for e in exprs])
