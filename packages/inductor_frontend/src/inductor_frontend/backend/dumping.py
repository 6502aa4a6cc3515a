"""Writes what torch.compile made into a folder: graphs, programs, code, guards, graph breaks.

One folder for each compiled version of a function, called after torch's number of it (`0_0` for `0/0`), so that paths are the same
in each run of a program; in it one for each graph. Code runs from there: breakpoints in its files are hit.
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
    """Writes all that torch.compile makes into `folder`: of what is compiled in the block when it is compiled, and of what was
    compiled before, or comes out of a cache, as much as there is.

    `torch.compile(model, backend="wrapper_ir")` writes for each graph: Dynamo's graph, autograd's (AOT) graph, the program
    before and after each pass, the emitted code with its kernels, the artifact, and where all of it comes from. When the block
    ends, guards, the bytecode that Dynamo runs and graph breaks follow, and the code of graphs that Inductor compiled itself, out of its caches
    too. Emitted Python runs from the folder from then on, where breakpoints are hit.

    The block sets the environment variable `WRAPPER_IR_DUMP_COMPILATION`, which does the same for a whole process. Gives the folder
    that this process writes to. Raises BackendError FE404 where it cannot be written.
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
    """Writes all of one graph, and lets its code run from there; returns its folder. Raises BackendError FE404."""
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
            "made": info.made,
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
            "FE404",
            f"{folder} cannot be written: {error}",
            hint=f"a folder to write to; {DUMP_FOLDER} names it",
        ) from error
    return own


def _graphs_in_use() -> list[GraphInfo]:
    """The graphs that Dynamo would still run, and those that it does not know of: a reset leaves code alive that nothing calls."""
    used = {name for code in compiled_codes() for name in code.backend_ids}
    return [r for r in live_graphs() if not r.function.backend_id or r.function.backend_id in used]


def _folder_of(info: GraphInfo, folder: Path) -> Path:
    """The graph's folder: its own from before, or a new one beside those of other graphs of this process that are in use."""
    function = folder / (info.function.compile_id.replace("/", "_") or _OUTSIDE)
    same = [r for r in live_graphs() if r.function.backend_id == info.function.backend_id]
    taken = {r.made for r in (*_graphs_in_use(), *same) if r is not info}
    number = 0
    while True:
        path = function / (f"{info.kind}_{number}" if number else info.kind)
        try:
            notes = json.loads((path / _NOTES).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return path
        if notes.get("process") != os.getpid() or notes.get("made") not in taken:
            return path
        number += 1


def _save(info: GraphInfo, own: Path) -> list[str]:
    """Writes the artifact; in words why there is none."""
    try:
        save(info.artifact, own / "graph.wir")
    except WirError as error:
        return [f"graph.wir: {error}"]
    return []


def _write_code(info: GraphInfo, folder: Path, lacks: list[str]) -> tuple[tuple[Path, ...], bool]:
    """The code that runs, and whether it runs from there from now on; where the emitter cannot do that, what it writes. Adds to
    `lacks` what could not be done."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if isinstance(info.emitter, RelocatingEmitter):
            return info.emitter.relocate(info.program, info.artifact, folder), True
    except OSError:
        raise
    except (
        Exception
    ) as error:  # of a plug-in, whose classes of errors are its own; what is shown fails no compilation
        lacks.append(f"code that runs from here: {error}")
    try:
        return info.emitter.write(info.artifact, folder), False
    except OSError:
        raise
    except Exception as error:
        lacks.append(f"code: {error}")
        return (), False


def _write_others(explanation: Explanation, folder: Path, written: Sequence[Path]) -> tuple[Path, ...]:
    """Writes those of the emitter's texts that the explanation names and `written` lacks; gives their paths."""
    others = {folder / file.name: file for file in explanation.files if folder / file.name not in written}
    for path, file in others.items():
        _write(path, "".join(f"{line.text}\n" for line in file.lines))
    return tuple(others)


def _write_rest(folder: Path) -> None:
    """What is known when all is compiled."""
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
