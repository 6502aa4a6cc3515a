"""Functions that a device records once and replays from then on: when, for which arguments, and what a caller gets.

`Recorded` stands in for a recordable function of a program. It knows no tensor library: a `GraphDevice` records, replays and
says what an address is. One device has one `Recorder`, so that all recordings share memory and none runs beside another.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["RECORDERS", "GraphDevice", "Recorded", "Recorder", "Recorders", "Replay"]

# Any in this file: tensors and numbers of a library that this package does not know.
_LOG = logging.getLogger(__name__)
_STEADY = 3
"""Calls in a row in which a static argument may lie elsewhere than before, before it is copied instead."""
_MOVES = 32
"""Calls in all of which that holds for."""
_KNOWN = 1024
"""Keys that a function remembers, the recorded ones among them."""
_UNUSED = 8
"""How many times `limit` changes of the key a recording is unused before another may take its place."""


@dataclass(slots=True)
class Replay:
    """One recording. `addresses` has those of the arguments that are bound (None for others), which `fits` compares, `copied`
    the positions of the arguments that are copied to `buffers`, `written` pairs of a position and the buffer to copy back.

    `results` are the tensors that a replay writes, `storages` what `GraphDevice.holders` counts the holders of, and
    `holders` how many there are while no caller has any; `give` gives them to the caller, copies at positions in `owned`;
    `is_lent` says whether a caller may have one.
    """

    run: Callable[[], None]
    results: tuple[Any, ...]
    storages: Sequence[Any]
    holders: Sequence[int]
    addresses: list[int | None]
    fits: Callable[[list[Any]], bool]
    copied: tuple[int, ...]
    buffers: list[Any]
    written: tuple[tuple[int, Any], ...]
    give: Callable[[], tuple[Any, ...]]
    owned: frozenset[int]
    is_lent: bool = False


class GraphDevice(Protocol):
    """What a tensor library does for recordings on one device."""

    def stream(self) -> Hashable | None:
        """The current stream; None where the work that it is given is being recorded already."""

    def follow(self, before: Hashable) -> None:
        """Makes the current stream wait for what `before` was given."""

    def addresses(self, args: Sequence[Any], positions: Sequence[int]) -> list[int | None]:
        """One a position of `args`: the address for those in `positions`."""

    def checker(self, args: Sequence[Any], positions: Sequence[int]) -> Callable[[list[Any]], bool]:
        """What says of arguments whether those at these positions lie where those of `args` do."""

    def is_here(self, args: Sequence[Any], positions: Sequence[int]) -> bool:
        """Whether all tensors at these positions lie on this device."""

    def buffer(self, arg: Any) -> Any | None:
        """A tensor that an argument can be copied to; None where its elements share bytes."""

    def copy(self, targets: list[Any], sources: list[Any]) -> None:
        """Copies tensors, on the current stream."""

    def record(self, run: Callable[[], Sequence[Any]]) -> tuple[Callable[[], None], tuple[Any, ...]]:
        """Records what `run` does, and gives what replays it, and what `run` returned. Whatever `run` raises it raises, and the
        device is as before."""

    def storages(self, results: Sequence[Any]) -> Sequence[Any]:
        """What `holders` takes: for each result, its memory."""

    def holders(self, storages: Sequence[Any]) -> Sequence[int]:
        """How many tensors and other holders each storage has."""

    def giver(self, results: tuple[Any, ...], owned: Set[int]) -> Callable[[], tuple[Any, ...]]:
        """What makes new tensors over the memory of results after each replay; at positions in `owned` copies, which share memory
        where the results do."""

    def wait(self) -> None:
        """Waits until the device has done everything."""

    def is_exhausted(self, error: Exception) -> bool:
        """Whether an error says that the device has no memory left."""


@dataclass(slots=True)
class _Key:
    """What is known about the calls with one key."""

    seen: list[int | None]
    """Where static arguments lay in the last call that was not a replay."""
    copied: frozenset[int]
    moves: int = 0
    """Calls in a row in which a static argument lay elsewhere than before."""
    all_moves: int = 0
    used: int = 0
    replay: Replay | None = None
    refused: bool = False


@dataclass(slots=True)
class Recorder:
    """What all recordings of one device share: replays are in order, whatever streams and threads they are called on."""

    device: GraphDevice
    lock: threading.RLock = field(default_factory=threading.RLock)
    stream: Hashable | None = None
    """The stream of the last replay."""

    def recorded(
        self,
        function: Callable[..., tuple[Any, ...]],
        name: str,
        *,
        limit: int,
        tensors: Sequence[int] = (),
        static: Sequence[int] = (),
        written: Sequence[int] = (),
    ) -> Recorded:
        """`function`, recorded: see `Recorded`."""
        return Recorded(self, function, name, limit, tuple(tensors), frozenset(static), frozenset(written))


class Recorded:
    """A function of a list of arguments, and numbers, as emitted Python has them, which is recorded for each key.

    A key is the numbers among its arguments and after them. The first call with a key runs the function as it is (kernels are
    loaded, choices made); the second records it, if `static` arguments lie where they lay. Then each call checks that they
    still do, copies the other tensors to where the recording reads them, and replays. What the function writes counts as
    static, too: it is state. A static argument that lies elsewhere is run with as it is, and recorded anew when it stays; one
    that never stays is copied as well, and back where the function writes it. Of those that are called static and written there
    is no copy: others may see the same memory.

    Other tensors are bound by address, too, until a call finds one elsewhere: callers fill one buffer again and again, and an
    allocator gives the same memory to each call of a loop. A tensor that has moved once is copied from then on.

    Results are the caller's for as long as it likes: they are lent, over memory that the next replay overwrites, until a
    caller is seen to hold one while the next call begins. That call runs as it is, and from then on this result is copied;
    what the caller goes on holding is left to it, and the function recorded anew.

    At most `limit` recordings are there at a time. Past that a key is recorded in place of one that has not been used for a
    while; where there is none, calls with it run as they are. So does every call after a recording has failed.
    """

    def __init__(
        self,
        recorder: Recorder,
        function: Callable[..., tuple[Any, ...]],
        name: str,
        limit: int,
        tensors: tuple[int, ...],
        static: frozenset[int],
        written: frozenset[int],
    ) -> None:
        self.recorder = recorder
        self.device = recorder.device
        self.function = function
        self.name = name
        self.limit = limit
        self.tensors = tensors
        self.static = static | written
        self.fixed = static & written
        """Arguments of which there must be no copy."""
        self.written = written
        self.refusal = ""
        """Why nothing is recorded any more."""
        self.owned: frozenset[int] = frozenset()
        """Positions of the results of which callers get copies."""
        self.moving: frozenset[int] = frozenset()
        """Arguments, not static ones, that have lain at different addresses in calls with one key."""
        self._keys: dict[tuple[Any, ...], _Key] = {}
        self._ticks = 0
        self._key: tuple[Any, ...] | None = None
        """The key of the last replay."""
        self._replay: Replay | None = None

    def __call__(self, args: list[Any], *numbers: Any) -> tuple[Any, ...]:
        """The function's results."""
        key = numbers
        if len(args) != len(self.tensors):
            key = (*numbers, *[x for i, x in enumerate(args) if i not in self.tensors])
        stream = self.device.stream()
        if stream is None or self.refusal:
            return self.function(args, *numbers)
        with self.recorder.lock:
            replay = self._replay if key == self._key else self._find(key)
            if replay is None or not replay.fits(args):
                replay = self._prepare(key, args, numbers)
            if replay is not None and replay.is_lent:
                replay = self._returned(replay, key, args, numbers)
            if replay is not None:
                return self._replayed(replay, args, stream)
        return self.function(args, *numbers)

    def _replayed(self, replay: Replay, args: list[Any], stream: Hashable) -> tuple[Any, ...]:
        device, recorder = self.device, self.recorder
        if recorder.stream != stream:
            if recorder.stream is not None:
                device.follow(recorder.stream)
            recorder.stream = stream
        if replay.copied:
            device.copy(replay.buffers, [args[i] for i in replay.copied])
        replay.run()
        if replay.written:
            device.copy([args[i] for i, _ in replay.written], [buffer for _, buffer in replay.written])
        replay.is_lent = True
        if replay.owned is not self.owned:
            replay.owned, replay.give = self.owned, device.giver(replay.results, self.owned)
        return replay.give()

    def _returned(
        self, replay: Replay, key: tuple[Any, ...], args: list[Any], numbers: tuple[Any, ...]
    ) -> Replay | None:
        """The recording, where no caller holds results of its last replay; a new one, which leaves them their memory, where that
        is not the first time."""
        holders = self.device.holders(replay.storages)
        if holders == replay.holders:
            return replay
        held = {i for i, (now, free) in enumerate(zip(holders, replay.holders)) if now != free}
        if not self.owned.issuperset(held):
            self.owned |= held
            _LOG.info("%s: a caller holds results %s across calls; they are copied", self.name, sorted(held))
            return None
        known = self._keys[key]
        self._forget(known)
        return self._prepare(key, args, numbers)

    # --- the first calls

    def _find(self, key: tuple[Any, ...]) -> Replay | None:
        self._ticks += 1
        known = self._keys.get(key)
        if known is None or known.replay is None:
            return None
        known.used = self._ticks
        self._key, self._replay = key, known.replay
        return known.replay

    def _prepare(self, key: tuple[Any, ...], args: list[Any], numbers: tuple[Any, ...]) -> Replay | None:
        """A recording for these arguments, where it is time for one."""
        known = self._keys.get(key)
        copied = self.moving if known is None else self.moving | known.copied
        here = self.device.addresses(args, [i for i in self.tensors if i not in copied])
        if known is None:
            self._remember(key, here)
            return None
        if known.refused:
            return None
        if not self.device.is_here(
            args, self.tensors
        ):  # a seed that an operator makes on the CPU, which a recording would keep
            return None
        self._note_moves(known, here)
        if not self._is_steady(known, here) or (known.replay is None and not self._make_room()):
            return None
        known.moves = 0
        self._forget(known)
        try:
            known.replay = self._record(known, args, numbers)
        except Exception as error:
            known.refused = True
            if not self.device.is_exhausted(error):
                self.refusal = str(error) or type(error).__name__
            _LOG.warning("%s runs as it is, since it could not be recorded: %s", self.name, error)
            return None
        known.used = self._ticks
        self._key, self._replay = key, known.replay
        return known.replay

    def _note_moves(self, known: _Key, here: list[int | None]) -> None:
        """Takes out of `here` the arguments, not static ones, that a call has found elsewhere; they are copied from now on."""
        last = known.seen if known.replay is None else known.replay.addresses
        self.moving |= {i for i, at in enumerate(here) if at != last[i]} - self.static
        for i in self.moving:
            here[i] = known.seen[i] = None

    def _is_steady(self, known: _Key, here: list[int | None]) -> bool:
        """Whether a recording for these addresses will last: static arguments lie where they lay in the call before, or those
        that do not are copied from now on."""
        last = known.seen if known.replay is None else known.replay.addresses
        moved = {i for i, at in enumerate(here) if at is not None and at != last[i]} - self.fixed
        known.all_moves += bool(moved)
        is_steady = known.seen == here
        known.seen = here
        if is_steady and known.all_moves < _MOVES:
            return True
        known.moves += 1
        if known.moves < _STEADY or not moved:
            return is_steady
        known.copied |= moved
        known.seen = [None if i in moved else at for i, at in enumerate(here)]
        _LOG.info("%s: arguments %s lie elsewhere in each call; they are copied", self.name, sorted(moved))
        return True

    def _remember(self, key: tuple[Any, ...], seen: list[int | None]) -> None:
        if len(self._keys) >= _KNOWN:  # those without a recording, the oldest first
            for old in [k for k, known in self._keys.items() if known.replay is None][: _KNOWN // 2]:
                del self._keys[old]
        self._keys[key] = _Key(seen, frozenset())

    def _make_room(self) -> bool:
        """Whether one more recording may be made; forgets one that is not used any more."""
        recorded = [known for known in self._keys.values() if known.replay is not None]
        if len(recorded) < self.limit:
            return True
        oldest = min(recorded, key=lambda known: known.used, default=None)
        if oldest is None or self._ticks - oldest.used < _UNUSED * self.limit:
            return False
        self.device.wait()
        self._forget(oldest)
        return True

    def _forget(self, known: _Key) -> None:
        if known.replay is not None:
            self.device.wait()
        if self._replay is known.replay:
            self._key = self._replay = None
        known.replay = None

    def _record(self, known: _Key, args: list[Any], numbers: tuple[Any, ...]) -> Replay:
        given, copied, bound = list(args), list[int](), list[int]()
        copied_now = self.moving | known.copied
        for i in self.tensors:
            buffer = self.device.buffer(args[i]) if i in copied_now else None
            if buffer is None:
                bound.append(i)
            else:
                given[i] = buffer
                copied.append(i)
        buffers = [given[i] for i in copied]
        written = tuple([(i, given[i]) for i in copied if i in self.written])
        run, results = self.device.record(lambda: self.function([*given], *numbers))
        storages, give = self.device.storages(results), self.device.giver(results, self.owned)
        return Replay(
            run=run,
            results=results,
            storages=storages,
            holders=self.device.holders(storages),
            addresses=self.device.addresses(args, bound),
            fits=self.device.checker(args, bound),
            copied=tuple(copied),
            buffers=buffers,
            written=written,
            give=give,
            owned=self.owned,
        )


class Recorders:
    """The recorders of this process, by device. Like memory pools they belong to the process, since programs share what a device
    has for recordings."""

    def __init__(self) -> None:
        self._recorders: dict[str, Recorder] = {}
        self._lock = threading.Lock()

    def set(self, device: str, recorder: Recorder) -> None:
        """Makes `recorder` the one of a device for programs that are loaded from now on."""
        with self._lock:
            self._recorders[device] = recorder

    def get(self, device: str, make: Callable[[str], GraphDevice]) -> Recorder:
        """The recorder of a device, made where there is none."""
        with self._lock:
            if device not in self._recorders:
                self._recorders[device] = Recorder(make(device))
            return self._recorders[device]


RECORDERS = Recorders()
"""The recorders of this process."""
