"""An emitter that stores its artifacts, and runs each in the way under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import wrapper_ir
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import CompiledProgram

How = Callable[[Artifact], CompiledProgram]
"""A way to run a program."""


@dataclass(slots=True)
class Graphs:
    """The graphs of one function, in the order in which they were compiled, and how they run now."""

    how: How
    artifacts: list[Artifact] = field(default_factory=list)
    programs: list[CompiledProgram] = field(default_factory=list)
    failed: bool = False
    """True if a graph's program raised."""

    def add(self, artifact: Artifact) -> CompiledProgram:
        """Adds a graph; returns a callable that always runs the current way."""
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


@dataclass(frozen=True, slots=True)
class Collector:
    """See `wrapper_ir.plugins.protocols.Emitter`.

    An option of `torch.compile` (`options={"emitter": Collector(graphs)}`), so that it need not be installed.
    """

    graphs: Graphs
    name: str = field(default="collect", init=False)

    def emit(self, artifact: Artifact) -> str:
        """The program's text."""
        return wrapper_ir.print_program(artifact.program)

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """Writes the program's text."""
        path = folder / "program.txt"
        path.write_text(self.emit(artifact), encoding="utf-8")
        return (path,)

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> CompiledProgram:
        """Keeps the artifact; the callable runs it in the current way."""
        return self.graphs.add(artifact)
