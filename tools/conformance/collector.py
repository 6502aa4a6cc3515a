"""An emitter that keeps the artifacts it is given, and runs each in whatever way is being checked.

It is found as any emitter is: by its entry point, in the folder `plugin`, which is on the path while it collects.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import wrapper_ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.guarded import NOT_GUARDED, Guarded
from wrapper_ir.protocols import CompiledProgram

__all__ = ["COLLECTOR", "Collector", "Graphs", "How"]

How = Callable[[Artifact], CompiledProgram]
"""A way to run a program."""

_PLUGIN = str(Path(__file__).parent / "plugin")


@dataclass(slots=True)
class Graphs:
    """The graphs of one function, in the order in which they were compiled, and how they run now."""

    how: How
    artifacts: list[Artifact] = field(default_factory=list)
    programs: list[CompiledProgram] = field(default_factory=list)
    failed: bool = False
    """Whether a graph's program raised."""

    def add(self, artifact: Artifact) -> CompiledProgram:
        """One more graph, as a callable that always runs the current way."""
        self.artifacts.append(artifact)
        self.programs.append(self.how(artifact))
        return _Graph(self, len(self.artifacts) - 1)

    def run_with(self, how: How) -> None:
        """From now on the graphs run this way."""
        self.how, self.programs = how, [how(artifact) for artifact in self.artifacts]

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """Notes that a program raised."""
        try:
            yield
        except Exception:
            self.failed = True
            raise


@dataclass(frozen=True, slots=True)
class _Graph:
    graphs: Graphs
    number: int

    # Any: tensors and numbers of any graph
    @property
    def boxed(self) -> Callable[[list[Any]], tuple[Any, ...]]:
        return self._boxed

    def _boxed(self, args: list[Any]) -> tuple[Any, ...]:
        with self.graphs.noticing():
            return self.graphs.programs[self.number].boxed(args)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self.graphs.noticing():
            return self.graphs.programs[self.number](*args, **kwargs)


class Collector:
    """See `wrapper_ir.protocols.Emitter`."""

    name = "collect"

    def __init__(self) -> None:
        # Emitters are found by name, so what this one collects into cannot be an argument of `compile`.
        self._into: Graphs | None = None

    @contextmanager
    def collecting(self, graphs: Graphs) -> Iterator[None]:
        """The emitter can be found, and artifacts go into `graphs`."""
        self._into = graphs
        sys.path.append(_PLUGIN)
        try:
            yield
        finally:
            sys.path.remove(_PLUGIN)
            self._into = None

    def emit(self, artifact: Artifact) -> str:
        """The program's text."""
        return wrapper_ir.print_program(artifact.program)

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """Writes the program's text."""
        path = folder / "program.txt"
        path.write_text(self.emit(artifact), encoding="utf-8")
        return (path,)

    def compile(self, artifact: Artifact, guarded: Guarded = NOT_GUARDED) -> CompiledProgram:
        """Keeps the artifact; the callable runs it in the current way."""
        assert self._into is not None
        return self._into.add(artifact)


COLLECTOR = Collector()
"""The object that the entry point names."""
