"""Captures functions on a device and replays them in later calls.

`GraphedFunction` replaces a replayable function of a program. It does not depend on a tensor library: a
`GraphDevice` captures, replays and compares addresses. All graphs of a device share one `DeviceGraphs`, so
that they share memory and never run concurrently. `lent_results` tracks which results callers may reference.

Each key of a captured function (`Key`) is in one state. A call that does not replay runs the function
eagerly; the first few of these are warm-ups (`GraphDevice.warm_up`).

| state    | event in a call                                              | next state | the call |
| -------- | ------------------------------------------------------------ | ---------- | -------- |
| unknown  | any; kernels are loaded and addresses noted                  | seen       | runs     |
| seen     | static arguments have moved, and are not copied yet          | seen       | runs     |
| seen     | the limit is reached, or lenders are captured again first    | seen       | runs     |
| seen     | static arguments are steady, or copied from now on           | captured   | replays  |
| seen     | capture fails; `refusal` is set unless memory was exhausted  | refused    | runs     |
| captured | arguments and memory are as captured                         | captured   | replays  |
| captured | an argument has moved, is not copied and not yet steady      | captured   | runs     |
| captured | the same, but steady: captured again                         | captured   | replays  |
| captured | a result is still referenced: copied from now on             | captured   | runs     |
| captured | memory of a copied result is referenced: captured again      | captured   | replays  |
| captured | it writes memory of other referenced results                 | captured   | `_yields` |
| captured | capturing again is not possible now                          | seen       | runs     |
| captured | another key takes its place after long disuse                | seen       | -        |
| refused  | any                                                          | refused    | runs     |
| seen, refused | the function has too many keys; the oldest are dropped  | unknown    | -        |

In every state, a call runs without a transition if its stream is being captured, or if
`GraphedFunction.refusal` is set.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from wrapper_ir_runtime.graph_device import GraphDevice
from wrapper_ir_runtime.known_calls import ArgumentUses, Key, Replay
from wrapper_ir_runtime.lent_results import GraphMemory, Lending, LentResults, Overlap

T = TypeVar("T")
Numbers = tuple[Hashable, ...]
"""Numbers among the arguments of a call."""
_LOG = logging.getLogger(__name__)
_KNOWN = 1024
"""Limit on the keys of a function, captured ones included."""
_UNUSED = 8
"""A graph may be replaced after it is unused for this many times `limit` changes of the key."""


@dataclass(slots=True)
class DeviceGraphs(Generic[T]):
    """State that all graphs of one device share. Replays are ordered across streams and threads."""

    device: GraphDevice[T]
    memory: GraphMemory[T] = field(init=False)
    lock: threading.RLock = field(default_factory=threading.RLock)
    stream: Hashable | None = None
    """The stream of the last replay."""
    _dropped: deque[LentResults[T]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.memory = GraphMemory(self.device)

    def drop(self, lent: Iterable[LentResults[T]]) -> None:
        """Removes graphs of a function that was destroyed; if another thread captures or replays, later."""
        self._dropped.extend(lent)
        if self.lock.acquire(blocking=False):
            try:
                self.forget_dropped()
            finally:
                self.lock.release()

    def forget_dropped(self) -> None:
        """Removes the graphs of destroyed functions."""
        while self._dropped:
            self.memory.remove(self._dropped.popleft())

    def graphed(
        self,
        function: Callable[..., tuple[T, ...]],
        name: str,
        *,
        limit: int,
        tensors: Sequence[int] = (),
        static: Sequence[int] = (),
        written: Sequence[int] = (),
        given: Sequence[int] = (),
    ) -> GraphedFunction[T]:
        """Returns `function` as a captured function; see `GraphedFunction`."""
        uses = ArgumentUses(tuple(tensors), frozenset(static), frozenset(written), frozenset(given))
        return GraphedFunction(self, function, name, limit, uses)


class GraphedFunction(Generic[T]):
    """A function of a list of arguments, and of numbers, that is captured once for each key and replayed.

    The key consists of the numbers among the arguments and after them; the module's table lists its states.
    The first call runs eagerly, which loads kernels and makes choices. The second captures, if `static`
    arguments have not moved. Every later call checks their addresses, copies the other tensors to the
    graph's buffers, and replays.

    Written arguments count as static, since they are state. If a static argument moves, the call runs
    eagerly, and the function is captured again once the address is steady. If it never is, the argument is
    copied, and copied back if it is written. Arguments that are both `static` and written are never copied:
    others may use the same memory.

    Other tensors are bound by address until one moves. Callers often fill one buffer repeatedly, and
    allocators often return the same memory in each iteration of a loop. A tensor that has moved once is
    copied in all later calls.

    Results are lent: they are tensors over memory that the next replay overwrites. If a caller still
    references a result when the next call begins, that call runs eagerly, and this result is copied in all
    later calls. The caller keeps the memory of the results that it references, and the function is captured
    again.

    A function has at most `limit` graphs. Beyond that, a new key replaces a graph that was not used
    recently. If there is no such graph, calls with the key run eagerly, as do all calls after a
    capture has failed.
    """

    def __init__(
        self,
        device_graphs: DeviceGraphs[T],
        function: Callable[..., tuple[T, ...]],
        name: str,
        limit: int,
        uses: ArgumentUses,
    ) -> None:
        self.device_graphs = device_graphs
        self.device = device_graphs.device
        self.function = function
        self.name = name
        self.limit = limit
        self.tensors = uses.tensors
        self.given = uses.given
        self.written = uses.written - uses.given
        self.static = uses.static | self.written
        self.fixed = uses.static & self.written
        """Arguments that are never copied."""
        self.refusal = ""
        """Why the function is no longer captured."""
        self.lending = Lending()
        self.moving: frozenset[int] = frozenset()
        """Arguments, not static, that had different addresses in calls with one key."""
        self._keys: dict[Numbers, Key[T]] = {}
        self._ticks = 0
        self._key: Numbers | None = None
        """The key of the last replay."""
        self._replay: Replay[T] | None = None

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.device_graphs.drop(
                [state.replay.lent for state in self._keys.values() if state.replay is not None]
            )

    def __call__(self, args: list[T], *numbers: Hashable) -> tuple[T, ...]:
        """Replays or runs the function; returns its results."""
        key = numbers
        if len(args) != len(self.tensors):
            key = (*numbers, *[x for i, x in enumerate(args) if i not in self.tensors])
        stream = self.device.stream()
        if stream is None or self.refusal:
            return self.function(args, *numbers)
        with self.device_graphs.lock:
            replay = self._replay if key == self._key else self._find(key)
            if replay is None or not replay.fits(args):
                replay = self._prepare(key, args, numbers)
            if replay is not None and replay.lent.is_lent:
                replay = self._returned(replay, key, args, numbers)
            if replay is not None and replay.overlaps:
                replay = self._apart(replay, key, args, numbers)
            if replay is not None:
                return self._replayed(replay, args, stream)
            state = self._keys[key]
            is_warm_up = state.may_warm_up and self._has_capacity()
            state.warm_ups += is_warm_up
        if is_warm_up:
            return self.device.warm_up(lambda: self.function(args, *numbers))
        return self.function(args, *numbers)

    def _replayed(self, replay: Replay[T], args: list[T], stream: Hashable) -> tuple[T, ...]:
        device, device_graphs = self.device, self.device_graphs
        if device_graphs.stream != stream:
            if device_graphs.stream is not None:
                device.follow(device_graphs.stream)
            device_graphs.stream = stream
        if replay.copied:
            device.copy(replay.buffers, [args[i] for i in replay.copied])
        replay.run()
        if replay.write_backs:
            device.copy(
                [args[i] for i, _ in replay.write_backs], [buffer for _, buffer in replay.write_backs]
            )
        replay.lent.is_lent = True
        if replay.owned is not self.lending.owned:
            replay.owned = self.lending.owned
            replay.give = device.giver(replay.lent.results, replay.owned)
        return replay.give()

    def _returned(self, replay: Replay[T], key: Numbers, args: list[T], numbers: Numbers) -> Replay[T] | None:
        """Returns the graph if no caller references results of its last replay.

        If callers referenced some before, those results are copied already: returns a new graph, which
        leaves them their memory. Otherwise returns None.
        """
        lent, lending = replay.lent, self.lending
        references = lent.held()
        if not references and not lent.is_stale:
            lent.is_lent = False
            return replay
        if not lending.owned.issuperset(references):
            lending.owned |= references
            _LOG.info(
                "%s: a caller holds results %s across calls; they are copied", self.name, sorted(references)
            )
            return None
        if not lent.reused.isdisjoint(references):
            return None  # another graph uses their memory, so the caller cannot keep it
        return self._anew(key, args, numbers)

    def _apart(self, replay: Replay[T], key: Numbers, args: list[T], numbers: Numbers) -> Replay[T] | None:
        """Returns the graph if no caller references results of other graphs in memory that it writes.

        Otherwise returns a new graph, or None.
        """
        for overlap in [*replay.overlaps]:
            lent = overlap.lent
            references = lent.held() if lent.is_lent else frozenset()
            inside = references & overlap.positions
            if inside:
                if not self._yields(replay, Overlap(lent, inside), args):
                    return None
                graph = self._anew(key, args, numbers)
                return None if graph is None else self._apart(graph, key, args, numbers)
            lent.is_lent = bool(references) or lent.is_stale
        for each in [*replay.overlaps]:
            if each.lent.is_given_up and not each.lent.is_lent:
                replay.overlaps.remove(each)
        return replay

    def _yields(self, replay: Replay[T], overlap: Overlap[T], args: list[T]) -> bool:
        """Returns whether this function is captured again, in other memory.

        It is called if a replay would overwrite results of another graph that callers reference. If it
        returns False, this call runs eagerly, and those results are copied from now on.
        """
        lent, inside = overlap.lent, overlap.positions
        if not lent.reused.isdisjoint(inside):  # forward, another function, backward
            lent.part(for_good=True)
            return False
        if any(each.lent is replay.lent for each in lent.takes):  # gradients are held while forward is called
            replay.lent.part(for_good=True)
            lent.mark_stale()
            _LOG.info(
                "%s: results in the memory of its results are held across calls, and get separate memory",
                self.name,
            )
            return True
        if lent.is_given_up or lent.function.owned.issuperset(inside) or self._are_given(overlap, args):
            return True
        lent.function.owned |= inside
        return False

    def _are_given(self, overlap: Overlap[T], args: list[T]) -> bool:
        """Returns whether some of these results are among the arguments."""
        spans = {*self.device.spans([args[i] for i in self.tensors])}
        return any(overlap.lent.spans[i] in spans for i in overlap.positions)

    def _anew(self, key: Numbers, args: list[T], numbers: Numbers) -> Replay[T] | None:
        """Returns a new graph, or None if that is not possible now."""
        self._forget(self._keys[key])
        return self._prepare(key, args, numbers)

    def _find(self, key: Numbers) -> Replay[T] | None:
        self._ticks += 1
        state = self._keys.get(key)
        if state is None or state.replay is None:
            return None
        state.last_use = self._ticks
        self._key, self._replay = key, state.replay
        return state.replay

    def _prepare(self, key: Numbers, args: list[T], numbers: Numbers) -> Replay[T] | None:
        """Returns a graph for these arguments, or None if the call runs eagerly."""
        self.device_graphs.forget_dropped()
        state = self._keys.get(key)
        copied = self.moving if state is None else self.moving | state.copied
        here = self.device.addresses(args, [i for i in self.tensors if i not in copied])
        if state is None:
            self._remember(key, here)
            return None
        if state.refused:
            return None
        if not self.device.is_here(args, self.tensors):  # a graph would keep a seed on the CPU
            return None
        self.moving |= state.moved(here) - self.static
        for i in self.moving:
            here[i] = state.last_addresses[i] = None
        before = state.copied
        lent = self.device_graphs.memory.lent(
            [args[i] for i in self.tensors]
        )  # results at the addresses of their capture
        is_steady = state.is_steady(here, self.fixed, {self.tensors[i] for i in lent})
        if state.copied != before:
            moved = sorted(state.copied - before)
            _LOG.info("%s: arguments %s move in each call; they are copied", self.name, moved)
        if not is_steady or (state.replay is None and not self._reserve_graph()):
            return None
        state.moves = 0
        self._forget(state)
        if self.device_graphs.memory.part_from([args[i] for i in self.tensors]):
            return None
        try:
            state.replay = self._capture(state, args, numbers)
        except Exception as error:
            state.refused = True
            if not self.device.is_exhausted(error):
                self.refusal = str(error) or type(error).__name__
            _LOG.warning("%s runs as it is, since it could not be captured: %s", self.name, error)
            return None
        state.last_use = self._ticks
        self._key, self._replay = key, state.replay
        return state.replay

    def _remember(self, key: Numbers, addresses: list[int | None]) -> None:
        if len(self._keys) >= _KNOWN:  # those without a graph, the oldest first
            for old in [k for k, state in self._keys.items() if state.replay is None][: _KNOWN // 2]:
                del self._keys[old]
        self._keys[key] = Key(addresses, frozenset())

    def _graphs(self) -> list[Key[T]]:
        return [state for state in self._keys.values() if state.replay is not None]

    def _has_capacity(self) -> bool:
        """Returns whether another graph is within the limit."""
        return len(self._graphs()) < self.limit

    def _reserve_graph(self) -> bool:
        """Returns whether another graph is possible; removes one that was not used recently."""
        if self._has_capacity():
            return True
        oldest = min(self._graphs(), key=lambda state: state.last_use, default=None)
        if oldest is None or self._ticks - oldest.last_use < _UNUSED * self.limit:
            return False
        self.device.wait()
        self._forget(oldest)
        return True

    def _forget(self, state: Key[T]) -> None:
        replay, state.replay = state.replay, None
        if replay is None:
            return
        self.device.wait()
        if self._replay is replay:
            self._key = self._replay = None
        replay.give = tuple  # drops the results even if the replay is still referenced
        self.device_graphs.memory.remove(replay.lent)

    def _capture(self, state: Key[T], args: list[T], numbers: Numbers) -> Replay[T]:
        operands, copied, bound = list(args), list[int](), list[int]()
        copied_now = self.moving | state.copied
        for i in self.tensors:
            buffer = self.device.buffer(args[i]) if i in copied_now else None
            if buffer is None:
                bound.append(i)
            else:
                operands[i] = buffer
                copied.append(i)
        buffers = [operands[i] for i in copied]
        write_backs = tuple([(i, operands[i]) for i in copied if i in self.written])
        tensors = {i: args[i] for i in self.tensors}
        takes, donated = self.device_graphs.memory.take(self.lending, tensors, self.given.intersection(bound))
        for i in copied:
            if i not in self.written:  # its memory is free after the last read
                [donated[i]] = self.device.release(operands[i], [operands[i]])

        def run() -> tuple[T, ...]:
            return self.function([donated.pop(i, x) for i, x in enumerate(operands)], *numbers)

        run_again, results = self.device.capture(run)
        lent, overlaps = self.device_graphs.memory.add(self.lending, results, takes)
        return Replay(
            run=run_again,
            lent=lent,
            overlaps=overlaps,
            addresses=self.device.addresses(args, bound),
            fits=self.device.checker(args, bound),
            copied=tuple(copied),
            buffers=buffers,
            write_backs=write_backs,
            give=self.device.giver(results, self.lending.owned),
            owned=self.lending.owned,
        )
