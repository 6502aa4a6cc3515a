"""The functions that a compiled program runs, as files: their texts, and how they run from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torch import fx

from fx_converter.boxed import BoxedSource
from fx_converter.emitted import module_text
from fx_converter.errors import ConvertError
from wrapper_ir.plugins.emitted import EmittedText
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_runtime.relocation import relocate_functions

_Part = BoxedSource | fx.GraphModule


def running_texts(source: BoxedSource) -> Iterator[EmittedText]:
    """The texts of all that a call runs: `program.py`, then the functions that it calls, below `functions/`."""
    for name, part in _parts(source):
        if isinstance(part, BoxedSource):
            yield EmittedText(name=name, text=part.text, origins=part.origins)
        else:
            yield module_text(part, name)


def relocate(program: CompiledProgram, folder: Path) -> tuple[Path, ...]:
    """Writes the texts of all that a callable of `compile` runs into `folder`, and lets it run from there; returns the files, the
    program's first. Raises ConvertError FX107 for a callable that another compiler made of the graph, OSError where `folder` cannot
    be written."""
    source = getattr(program.boxed, "source", None)  # the attribute of `boxed_function`
    if not isinstance(source, BoxedSource):
        raise ConvertError(
            "FX107",
            "the program's code is not this package's: a compiler of graphs made it",
            hint="FxOptions(compilers={}) compiles without one",
        )
    return tuple(_moved(part, folder / name) for name, part in _parts(source))


def _moved(part: _Part, path: Path) -> Path:
    if isinstance(part, BoxedSource):
        text, function = part.text, part.scope["run"]
    else:
        text, function = part.code, vars(type(part))["forward"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    relocate_functions({function.__name__: function}, text, function.__code__.co_filename, str(path))
    return path


def _parts(source: BoxedSource) -> Iterator[tuple[str, _Part]]:
    """All that a call runs, each with the name of its file."""
    yield "program.py", source
    counts: dict[str, int] = {}
    for part in _called(source, set()):
        name = part.name if isinstance(part, BoxedSource) else type(part).__name__
        count = counts[name] = counts.get(name, 0) + 1
        yield f"functions/{name}.py" if count == 1 else f"functions/{name}_{count}.py", part


def _called(source: BoxedSource, seen: set[int]) -> Iterator[_Part]:
    for inner in source.recorded.values():
        yield inner
        yield from _called(inner, seen)
    for held in source.scope.values():
        if not isinstance(held, fx.GraphModule):
            continue
        for module in held.modules():
            if isinstance(module, fx.GraphModule) and id(module) not in seen:
                seen.add(id(module))
                yield module
