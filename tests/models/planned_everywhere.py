"""An emitter whose callables run each graph unplanned and planned, in every engine, and compare them bit for
bit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import py_wrapper
from tools.conformance.plans import WAYS
from wrapper_ir import ir, verify
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes import MEMORY_PASSES, run_pipeline

# Any in this file: flat values of any program
Boxed = Callable[[list[Any]], Sequence[Any]]


def engines(planned: Artifact) -> list[Any]:
    """Callables of the model's own signature, each with `boxed`."""
    return [way(planned) for way in WAYS.values()]


def same_bits(a: object, b: object) -> bool:
    """Returns whether two results are equal, with NaN equal to NaN."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return a == b or (a != a and b != b)
    if a.dtype is not b.dtype or a.shape != b.shape or a.stride() != b.stride():
        return False
    return torch.equal(a, b) or torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def _copies(args: Sequence[Any]) -> list[Any]:
    """Copies with the same strides; tensors over one storage share one again."""
    storages: dict[int, torch.UntypedStorage] = {}
    found: list[Any] = []
    for x in args:
        if isinstance(x, Tensor):
            x = x.detach()
            held = x.untyped_storage()
            if held._cdata not in storages:
                storages[held._cdata] = held.clone()  # type: ignore[no-untyped-call]  # torch leaves it so
            storage = storages[held._cdata]
            x = torch.empty(0, dtype=x.dtype).set_(storage, x.storage_offset(), x.size(), x.stride())
        found.append(x)
    return found


@dataclasses.dataclass
class PlannedEverywhere:
    """See `wrapper_ir.plugins.protocols.Emitter`. `graphs` and `slots` count the compiled ones."""

    passes: str = MEMORY_PASSES
    graphs: int = 0
    slots: int = 0
    runs: int = 0
    name: str = dataclasses.field(default="planned-everywhere", init=False)

    def emit(self, artifact: Artifact) -> str:
        """Emits no text."""
        return py_wrapper.emit(artifact).source

    def write(self, artifact: Artifact, folder: Path) -> tuple[Path, ...]:
        """As Python."""
        return py_wrapper.write(artifact, folder)

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> _Everywhere:
        """See `_Everywhere`."""
        planned = dataclasses.replace(artifact, program=run_pipeline(artifact.program, self.passes))
        verify(planned)
        self.graphs += 1
        self.slots += sum(isinstance(op, ir.Slot) for op in planned.program.ops)
        borrowed = [p.ownership is ir.Ownership.BORROWED for p in artifact.program.main.params]
        return _Everywhere(py_wrapper.compile(artifact).boxed, engines(planned), borrowed, self)


class _Everywhere:
    """Runs the plain program, and each engine on copies of its arguments: results and borrowed arguments
    afterwards must be equal.
    """

    def __init__(
        self, plain: Boxed, planned: Sequence[Any], borrowed: Sequence[bool], owner: PlannedEverywhere
    ) -> None:
        self.plain, self.planned, self.borrowed, self.owner = plain, planned, borrowed, owner

    def boxed(self, args: list[Any]) -> tuple[Any, ...]:
        """See `CompiledProgram`."""
        given, state = _copies(args), torch.get_rng_state()
        want: list[Any] = []
        for run in self._runs():
            torch.set_rng_state(state)
            mine = _copies(given)
            found = [*run([*mine]), *compress(mine, self.borrowed)]
            want = want or _copies(found)
            assert all(map(same_bits, found, want)), run
            self.owner.runs += 1
        torch.set_rng_state(state)
        return tuple(self.plain(args))

    def _runs(self) -> Iterator[Boxed]:
        yield self.plain
        for engine in self.planned:
            yield engine.boxed
            yield engine.boxed  # the second call finds the memory of the first one

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("torch.compile calls `boxed`")
