"""Writes a module's docstring: its program, its command line, and the kernel of each source op."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version

from py_wrapper.emit.module import ModuleScope
from py_wrapper.emit.writer import WIDTH, Writer
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.support.quoting import python_docstring
from wrapper_ir.support.versions import TEXT
from wrapper_ir_runtime.kernel_files import kernel_file_names


def write_header(
    artifact: Artifact, scope: ModuleScope, kernels: Sequence[ir.KernelDef], out: Writer
) -> None:
    """Writes the docstring."""
    program, name = artifact.program, scope.options.name
    ops = sum(len(f.body) for f in program.functions)
    out.line(
        f'"""{python_docstring(name)}: emitted from Wrapper IR {TEXT.version} '
        f"for {python_docstring(str(program.target.device))}, {ops} ops."
    )
    out.line()
    command = f"python {python_docstring(name)}.py --repeat 100 --profile"
    out.line(f"Emitted by py_wrapper {_version()}. Runs on its own: `{command}`.")
    rows = list(_rows(artifact, scope, kernels))
    if rows:
        out.line()
        out.line("Where the source ops are computed:")
        out.line()
    for number, (where, sources) in enumerate(rows):
        if number and (sources or rows[number - 1][1]):
            out.line()
        out.line(f"    {where}")
        for line in textwrap.wrap(sources, WIDTH - 8, break_long_words=False, break_on_hyphens=False):
            out.line(f"        {line}")
    out.line('"""')
    out.line()


def _version() -> str:
    try:
        return version("py-wrapper")
    except PackageNotFoundError:  # a source tree that is not installed
        return "unknown"


def _rows(
    artifact: Artifact, scope: ModuleScope, kernels: Sequence[ir.KernelDef]
) -> Iterator[tuple[str, str]]:
    """Yields (name and place, source ops) of each kernel and operator, in order of first use."""
    files = kernel_file_names(kernels)
    sources_of: dict[str, dict[str, None]] = {}
    for function in artifact.program.functions:
        for op in function.body:
            match op:
                case ir.Launch():
                    name = scope.kernel_names.get(op.kernel, op.kernel)
                    where = f"{name}  ({files.get(op.kernel, 'no file')})"
                case ir.CallExtern() | ir.CollectiveStart():
                    where = f"{scope.extern_names.get(op.target, op.target)}  ({op.target})"
                case _:
                    continue
            sources_of.setdefault(python_docstring(where), {}).update(
                dict.fromkeys(op.prov.ops or op.prov.nodes)
            )
    for where, sources in sources_of.items():
        yield where, python_docstring(", ".join(sources))
