"""The functions that a compiled program runs, as files: their texts, and their relocation to files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from torch import fx

from fx_converter.boxed import BoxedSource
from fx_converter.emitted import module_text
from fx_converter.errors import ConvertError
from wrapper_ir.plugins.emitted import EmittedText
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_runtime.relocation import relocate_functions
from wrapper_ir_torch.graph_modules import graph_modules

_Part = BoxedSource | fx.GraphModule


def running_texts(source: BoxedSource) -> Iterator[EmittedText]:
    """Yields the texts of all functions that a call runs: `program.py`, then the functions that it calls,
    below `functions/`."""
    for name, part in _parts(source):
        if isinstance(part, BoxedSource):
            yield EmittedText(name=name, text=part.text, origins=part.origins)
        else:
            yield module_text(part, name)


def relocate(program: CompiledProgram, folder: Path) -> tuple[Path, ...]:
    """Writes the texts of all functions of a callable of `compile` into `folder`, and makes their code refer
    to these files. Returns the files, the program's first. Raises ConvertError FX107 for a callable that a
    compiler created from the graph, OSError if `folder` cannot be written."""
    source = getattr(program.boxed, "source", None)  # the attribute of `boxed_function`
    if not isinstance(source, BoxedSource):
        raise ConvertError(
            "FX107",
            "the program's code is not this package's: a compiler of graphs created it",
            hint="FxOptions(compilers={}) compiles without one",
        )
    return tuple(_moved(part, folder / name) for name, part in _parts(source))


def _moved(part: _Part, path: Path) -> Path:
    if isinstance(part, BoxedSource):
        text, function = part.text, part.run
    else:
        text, function = part.code, vars(type(part))["forward"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    relocate_functions({function.__name__: function}, text, function.__code__.co_filename, str(path))
    return path


def _parts(source: BoxedSource) -> Iterator[tuple[str, _Part]]:
    """Yields all functions that a call runs, each with the name of its file."""
    yield "program.py", source
    counts: dict[str, int] = {}
    for part in _called(source, set()):
        name = part.name if isinstance(part, BoxedSource) else type(part).__name__
        count = counts[name] = counts.get(name, 0) + 1
        yield f"functions/{name}.py" if count == 1 else f"functions/{name}_{count}.py", part


def _called(source: BoxedSource, visited: set[int]) -> Iterator[_Part]:
    for inner in source.graphed.values():
        yield inner
        yield from _called(inner, visited)
    for module in chain.from_iterable(map(graph_modules, source.scope.values())):
        if id(module) not in visited:
            visited.add(id(module))
            yield module
