"""Writes the results of torch.compile into a folder: graphs, programs, code, guards, graph breaks.

Each compiled version of a function has one folder, named after torch's compile id (`0_0` for `0/0`), so that
paths are the same in each run of a program. It contains one folder for each graph. Code runs from there:
breakpoints in its files are hit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from inductor_frontend.backend.dynamo_state import compiled_codes, graph_breaks
from inductor_frontend.backend.graph_explanation import explain_graph
from inductor_frontend.backend.live_graphs import GraphInfo, live_graphs
from inductor_frontend.backend.program_stages import program_stages
from inductor_frontend.backend.stock_code import write_stock_code
from inductor_frontend.errors import BackendError
from inductor_frontend.settings import DUMP_FOLDER, dump_folder
from inductor_frontend.translate.explained import AOT_GRAPH
from wrapper_ir.artifact.file import save
from wrapper_ir.errors import WirError
from wrapper_ir.plugins.protocols import RelocatingEmitter
from wrapper_ir.text import print_program
from wrapper_ir_tools.explain import Explanation, explanation_json, explanation_text

_NOTES = "graph.json"
_OUTSIDE = "outside_dynamo"
"""The folder of graphs that were compiled without Dynamo."""


@contextmanager
def dump_compilation(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Writes the results of torch.compile into `folder`.

    Graphs that are compiled in the block are written when they are compiled. Graphs that were compiled
    before, or are loaded from a cache, are written as far as their data exists.

    `torch.compile(model, backend="wrapper_ir")` writes for each graph: Dynamo's graph, autograd's (AOT)
    graph, the program before and after each pass, the emitted code with its kernels, the artifact, and the
    origin of each line. At the end of the block, it writes guards, the bytecode that Dynamo runs, graph
    breaks, and the code of graphs that Inductor compiled itself or loaded from its caches. Emitted Python
    then runs from the folder, so that breakpoints in it are hit.

    The block sets the environment variable `WRAPPER_IR_DUMP_COMPILATION`, which has the same effect for a
    whole process. Yields the folder that this process writes to. Raises BackendError FE404 if it cannot be
    written.
    """
    before = os.environ.get(DUMP_FOLDER)
    os.environ[DUMP_FOLDER] = str(Path(folder).absolute())
    own = dump_folder()
    assert own is not None  # it was just set
    try:
        for info in _graphs_in_use():
            write_graph(info, own)
        yield own
    finally:
        if before is None:
            os.environ.pop(DUMP_FOLDER, None)
        else:
            os.environ[DUMP_FOLDER] = before
    _write_rest(own)


def write_graph(info: GraphInfo, folder: Path) -> Path:
    """Writes one graph, makes its code run from there, and returns its folder. Raises BackendError FE404."""
    try:
        own = _folder_of(info, folder)
        function = own.parent
        own.mkdir(parents=True, exist_ok=True)
        if info.function.graph:
            _write(function / "dynamo_graph.py", info.function.graph)
        artifact = info.artifact
        aot = artifact.extensions.get(AOT_GRAPH, "")
        if aot:
            _write(own / "aot_graph.py", aot)
        for number, (name, program) in enumerate(program_stages(artifact)):
            _write(own / "programs" / f"{number:02}_{name}.txt", print_program(program))
        _write(own / "program.txt", print_program(artifact.program))
        lacks = _save(info, own)
        explanation = explain_graph(info)
        code, runs = _write_code(info, own / "code", lacks)
        code += _write_others(explanation, own / "code", code)
        _write(own / "explanation.txt", explanation_text(explanation))
        _write(own / "explanation.json", explanation_json(explanation))
        notes = {
            "made": info.created,
            "process": os.getpid(),
            "compile_id": info.function.compile_id,
            "kind": info.kind,
            "emitter": info.emitter.name,
            "from_cache": info.from_cache,
            "code": [str(path.relative_to(own)) for path in code],
            "runs_from_here": runs,
            "lacks": lacks,
        }
        _write(own / _NOTES, json.dumps(notes, indent=2) + "\n")
    except OSError as error:
        raise BackendError(
            "FE404", f"{folder} cannot be written: {error}", hint=f"set {DUMP_FOLDER} to a writable folder"
        ) from error
    return own


def _graphs_in_use() -> list[GraphInfo]:
    """Returns the graphs that Dynamo can still run, and those that were compiled without Dynamo.

    A reset of Dynamo leaves code alive that is never called again.
    """
    live = {name for code in compiled_codes() for name in code.backend_ids}
    return [r for r in live_graphs() if not r.function.backend_id or r.function.backend_id in live]


def _folder_of(info: GraphInfo, folder: Path) -> Path:
    """Returns the graph's existing folder, or a new one that no other graph in use of this process has."""
    function = folder / (info.function.compile_id.replace("/", "_") or _OUTSIDE)
    same = [r for r in live_graphs() if r.function.backend_id == info.function.backend_id]
    occupants = {r.created for r in (*_graphs_in_use(), *same) if r is not info}
    number = 0
    while True:
        path = function / (f"{info.kind}_{number}" if number else info.kind)
        try:
            notes = json.loads((path / _NOTES).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return path
        if notes.get("process") != os.getpid() or notes.get("made") not in occupants:
            return path
        number += 1


def _save(info: GraphInfo, own: Path) -> list[str]:
    """Writes the artifact. Returns the reasons if it cannot be written."""
    try:
        save(info.artifact, own / "graph.wir")
    except WirError as error:
        return [f"graph.wir: {error}"]
    return []


def _write_code(info: GraphInfo, folder: Path, lacks: list[str]) -> tuple[tuple[Path, ...], bool]:
    """Writes the emitted code; returns its files, and whether the graph runs from them from now on.

    If the emitter cannot relocate code, writes its text only. Appends failures to `lacks`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if isinstance(info.emitter, RelocatingEmitter):
            return info.emitter.relocate(info.program, info.artifact, folder), True
    except OSError:
        raise
    except (
        Exception
    ) as error:  # an emitter is a plug-in and raises any class; a dump must not fail a compilation
        lacks.append(f"code that runs from here: {error}")
    try:
        return info.emitter.write(info.artifact, folder), False
    except OSError:
        raise
    except Exception as error:
        lacks.append(f"code: {error}")
        return (), False


def _write_others(explanation: Explanation, folder: Path, existing: Sequence[Path]) -> tuple[Path, ...]:
    """Writes the emitter's files that the explanation names and `existing` lacks; returns their paths."""
    others = {folder / file.name: file for file in explanation.files if folder / file.name not in existing}
    for path, file in others.items():
        _write(path, "".join(f"{line.text}\n" for line in file.lines))
    return tuple(others)


def _write_rest(folder: Path) -> None:
    """Writes guards, bytecode, graph breaks and Inductor's code, which are complete at the end of the
    block."""
    for code in compiled_codes():
        own = folder / code.compile_id.replace("/", "_")
        head = f"# {code.name}, {code.file}:{code.line}\n"
        _write(own / "guards.txt", head + code.guards)
        _write(own / "bytecode.txt", head + code.bytecode)
    breaks = [
        "\n".join([b.reason, *(f"  at {place}" for place in reversed(b.stack)), ""]) for b in graph_breaks()
    ]
    _write(folder / "graph_breaks.txt", "\n".join(breaks))
    write_stock_code(folder / "inductor")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
