"""Writes a module's docstring: what it is, how to run it, and which source op became which kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version

from py_wrapper.emit.module import ModuleScope
from py_wrapper.emit.writer import Writer
from wrapper_ir.artifact import Artifact
from wrapper_ir.kernels import KernelDef
from wrapper_ir.ops import CallExtern, CollectiveStart, Launch, Provenance
from wrapper_ir.runtime.kernel_files import kernel_file_names

__all__ = ["write_header"]

_MAX_SOURCES = 6


def write_header(artifact: Artifact, scope: ModuleScope, kernels: Sequence[KernelDef], out: Writer) -> None:
    """The docstring."""
    program, name = artifact.program, scope.options.name
    ops = sum(len(f.body) for f in program.functions)
    out.line(
        f'"""{_safe(name)}: emitted from Wrapper IR {program.schema_version} for {program.target.device}, {ops} ops.'
    )
    out.line()
    out.line(
        f"Emitted by py_wrapper {_version()}. Runs on its own: `python {_safe(name)}.py --repeat 100 --profile`."
    )
    rows = list(_rows(artifact, scope, kernels))
    if rows:
        out.line()
        out.line("Where the source ops are computed:")
        out.line()
        widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
        for first, second, third in rows:
            out.line(f"    {first:<{widths[0]}}  {second:<{widths[1]}}  {third}".rstrip())
    out.line('"""')
    out.line()


def _version() -> str:
    try:
        return version("py-wrapper")
    except PackageNotFoundError:  # a source tree that is not installed
        return "unknown"


def _safe(text: str) -> str:
    return text.replace("\\", "/").replace('"""', "'''")


def _rows(
    artifact: Artifact, scope: ModuleScope, kernels: Sequence[KernelDef]
) -> Iterable[tuple[str, str, str]]:
    """(variable, file, source ops) of each kernel and operator, in order of first use."""
    files = kernel_file_names(kernels)
    found: dict[tuple[str, str], dict[str, None]] = {}
    for function in artifact.program.functions:
        for op in function.body:
            match op:
                case Launch():
                    key = (scope.kernel_names.get(op.kernel, op.kernel), files.get(op.kernel, ""))
                case CallExtern() | CollectiveStart():
                    key = (scope.extern_names.get(op.target, op.target), f"torch {op.target}")
                case _:
                    continue
            found.setdefault(key, {}).update(dict.fromkeys(_sources(op.prov)))
    for (name, place), sources in found.items():
        shown = list(sources)[:_MAX_SOURCES] + (["..."] if len(sources) > _MAX_SOURCES else [])
        yield _safe(name), _safe(place), _safe(", ".join(shown))


def _sources(prov: Provenance) -> tuple[str, ...]:
    return prov.ops or prov.nodes
