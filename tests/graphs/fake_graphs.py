"""CUDA graphs on a CPU.

During capture, operators are noted and their effects undone; a replay calls them again, on the same
memory. A test counts calls to the device, and can make it fail.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from wrapper_ir import ir
from wrapper_ir.analysis import replayable
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.replayable import Refusal
from wrapper_ir.verifier.checks import replay
from wrapper_ir_passes.analysis import regions
from wrapper_ir_runtime import DEVICE_GRAPHS, DeviceGraphs, Span

# Any in this file: operators and arguments of any kind.


class _Notes(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own
    """Notes called operators with their results. `forbidden` ones cannot be captured."""

    def __init__(self, forbidden: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.calls: list[tuple[Any, Any, Any, Any]] = []
        self.before: list[tuple[Tensor, Tensor]] = []
        self.forbidden = forbidden

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.forbidden and self.forbidden in str(func):
            raise RuntimeError(f"operation not permitted when stream is capturing: {func}")
        schema, given = func._schema.arguments, kwargs or {}
        values = [*args, *[given[a.name] for a in schema[len(args) :] if a.name in given]]
        for argument, value in zip(schema, values):
            if argument.alias_info is not None and argument.alias_info.is_write:
                self.before.append((value, value.detach().clone()))
        result = func(*args, **given)
        self.calls.append((func, args, given, result))
        return result

    def undo(self) -> None:
        for tensor, content in reversed(self.before):
            tensor.copy_(content)

    def replay(self) -> None:
        for func, args, kwargs, result in self.calls:
            again = func(*args, **kwargs)
            if isinstance(result, Tensor) and again.data_ptr() != result.data_ptr():
                result.copy_(again)


class FakeGraphs:
    """See `wrapper_ir_runtime.GraphDevice`. `counts` has the number of calls of each function."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.current: Hashable | None = 1
        self.forbidden = ""
        self.exhausted = False
        self.fault: Exception | None = None
        self.elsewhere: Tensor | None = None

    def stream(self) -> Hashable | None:
        return self.current

    def follow(self, before: Hashable) -> None:
        self.counts[f"follow {before}"] += 1

    def addresses(self, args: Sequence[Any], positions: Sequence[int]) -> list[int | None]:
        return [x.data_ptr() if i in positions else None for i, x in enumerate(args)]

    def checker(self, args: Sequence[Any], positions: Sequence[int]) -> Callable[[list[Any]], bool]:
        there = self.addresses(args, positions)
        return lambda args: self.addresses(args, positions) == there

    def is_here(self, args: Sequence[Any], positions: Sequence[int]) -> bool:
        return all(args[i] is not self.elsewhere for i in positions)

    def buffer(self, arg: Tensor) -> Tensor | None:
        made = torch.empty_strided(arg.size(), arg.stride(), dtype=arg.dtype)
        return None if torch._debug_has_internal_overlap(made) == 1 else made

    def copy(self, targets: list[Tensor], sources: list[Tensor]) -> None:
        self.counts["copies"] += len(targets)
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source)

    def capture(self, run: Callable[[], Sequence[Any]]) -> tuple[Callable[[], None], tuple[Any, ...]]:
        self.counts["tries"] += 1
        if self.exhausted:
            raise MemoryError("out of memory")
        notes, stream = _Notes(self.forbidden), self.current
        self.current = None
        try:
            with notes:
                results = tuple(run())
        finally:
            self.current = stream
        notes.undo()
        self.counts["cuda_graphs"] += 1

        def replay() -> None:
            self.counts["replays"] += 1
            if self.fault is not None:
                raise self.fault
            notes.replay()

        return replay, results

    def warm_up(self, run: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        self.counts["warm-ups"] += 1
        return run()

    def memory(self) -> Sequence[Span]:
        return []  # each graph has a separate one

    def spans(self, tensors: Sequence[Tensor]) -> Sequence[Span]:
        found = [t.untyped_storage() for t in tensors]
        return [(s.data_ptr(), s.data_ptr() + s.nbytes()) for s in found]

    def release(self, tensor: Tensor, args: Sequence[Tensor]) -> list[Tensor]:
        self.counts["released"] += 1
        return [*args]

    def storages(self, results: Sequence[Tensor]) -> Sequence[Any]:
        plain = [r.detach().view(torch.int16) if r.dtype is torch.bfloat16 else r.detach() for r in results]
        memory = [r.numpy() for r in plain]  # which has no such numbers
        for result, each in zip(results, memory):
            result.memory = each  # type: ignore[attr-defined]  # it lives as long as the graph
        return memory

    def holders(self, storages: Sequence[Any]) -> Sequence[int]:
        return [sys.getrefcount(s) for s in storages]

    def giver(self, results: tuple[Tensor, ...], owned: Set[int]) -> Callable[[], tuple[Tensor, ...]]:
        def give() -> tuple[Tensor, ...]:
            self.counts["owned"] += len(owned)
            lent = [
                torch.frombuffer(r.memory, dtype=r.dtype).as_strided(r.size(), r.stride())  # type: ignore[attr-defined]  # as `storages` left it
                for r in results
            ]
            return tuple(x.clone() if i in owned else x for i, x in enumerate(lent))

        return give

    def wait(self) -> None:
        self.counts["waits"] += 1

    def is_exhausted(self, error: Exception) -> bool:
        return isinstance(error, MemoryError)


def _is_in(x: Tensor, held: Sequence[weakref.ref[Tensor]]) -> bool:
    return any(x is each() for each in held)


def _at_address(x: Tensor) -> Tensor:
    """A tensor over the same bytes, without keeping them alive: a graph knows addresses."""
    count = 1 + sum((n - 1) * s for n, s in zip(x.size(), x.stride()))
    held = (ctypes.c_byte * (count * x.element_size())).from_address(x.data_ptr())
    return torch.frombuffer(held, dtype=x.dtype).as_strided(x.size(), x.stride())


class RerunGraphs(FakeGraphs):
    """A replay calls the function again, including kernels of any kind, and copies its results."""

    def addresses(self, args: Sequence[Any], positions: Sequence[int]) -> list[int | None]:
        self._args = [weakref.ref(x) for x in args if isinstance(x, Tensor)]
        return super().addresses(args, positions)

    def capture(self, run: Callable[[], Sequence[Any]]) -> tuple[Callable[[], None], tuple[Any, ...]]:
        def plain() -> tuple[Any, ...]:
            stream, self.current = self.current, None
            try:
                return tuple(run())
            finally:
                self.current = stream

        before = [(x, x.detach().clone()) for held in self._args if (x := held()) is not None]
        results = plain()
        for tensor, content in before:
            tensor.data.copy_(content)  # autograd is not to see it
        operands: list[Any] = inspect.getclosurevars(run).nonlocals["operands"]
        operands[:] = [
            _at_address(x) if isinstance(x, Tensor) and _is_in(x, self._args) else x for x in operands
        ]
        self.counts["cuda_graphs"] += 1

        def replay() -> None:
            self.counts["replays"] += 1
            for result, again in zip(results, plain()):
                result.copy_(again)

        return replay, results


@contextmanager
def fake_device(name: str = "cpu", make: Callable[[], FakeGraphs] = FakeGraphs) -> Iterator[FakeGraphs]:
    """A device that captures programs loaded inside the block."""
    device, before = make(), dict(DEVICE_GRAPHS._graphs)
    DEVICE_GRAPHS.set(name, DeviceGraphs(device))
    try:
        yield device
    finally:
        DEVICE_GRAPHS._graphs = before


def let_the_cpu_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treats the CPU as a device that captures."""

    def elsewhere(op: ir.Op, analyses: Analyses) -> Iterator[Refusal]:
        return (found for found in replayable.refusals(op, analyses) if found[0] != "WIR226")

    monkeypatch.setattr(regions, "refusals", elsewhere)
    monkeypatch.setattr(replay, "refusals", elsewhere)
    monkeypatch.setattr(replay, "_is_host", lambda device: device.type == "meta")
