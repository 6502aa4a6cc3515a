"""Functions that a device records once and replays from then on: when, for which arguments, and what a caller gets.

`Recorded` stands in for a recordable function of a program. It knows no tensor library: a `GraphDevice` records, replays and
says what an address is. One device has one `Recorder`, so that all recordings share memory and none runs beside another.
`lent_results` says what of that memory callers may hold.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wrapper_ir_runtime.graph_device import GraphDevice
from wrapper_ir_runtime.known_calls import Key, Replay
from wrapper_ir_runtime.lent_results import Lending, LentResults, Overlap, RecordedMemory

# Any in this file: tensors and numbers of a library that this package does not know.
_LOG = logging.getLogger(__name__)
_KNOWN = 1024
"""Keys that a function remembers, the recorded ones among them."""
_UNUSED = 8
"""How many times `limit` changes of the key a recording is unused before another may take its place."""


@dataclass(frozen=True, slots=True)
class ArgumentUses:
    """Positions of a recorded function's arguments: the tensors among them; those that lie at one address in most calls; those that
    it writes; those that its caller has given to it, to be ended."""

    tensors: tuple[int, ...]
    static: frozenset[int]
    written: frozenset[int]
    given: frozenset[int]


@dataclass(slots=True)
class Recorder:
    """What all recordings of one device share: replays are in order, whatever streams and threads they are called on."""

    device: GraphDevice
    memory: RecordedMemory = field(init=False)
    lock: threading.RLock = field(default_factory=threading.RLock)
    stream: Hashable | None = None
    """The stream of the last replay."""
    _dropped: deque[LentResults] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.memory = RecordedMemory(self.device)

    def drop(self, lent: Iterable[LentResults]) -> None:
        """Forgets recordings of a function that is gone, now or, while another thread is at work here, later."""
        self._dropped.extend(lent)
        if self.lock.acquire(blocking=False):
            try:
                self.forget_dropped()
            finally:
                self.lock.release()

    def forget_dropped(self) -> None:
        """Forgets the recordings of functions that are gone."""
        while self._dropped:
            self.memory.remove(self._dropped.popleft())

    def recorded(
        self,
        function: Callable[..., tuple[Any, ...]],
        name: str,
        *,
        limit: int,
        tensors: Sequence[int] = (),
        static: Sequence[int] = (),
        written: Sequence[int] = (),
        given: Sequence[int] = (),
    ) -> Recorded:
        """`function`, recorded: see `Recorded`."""
        uses = ArgumentUses(tuple(tensors), frozenset(static), frozenset(written), frozenset(given))
        return Recorded(self, function, name, limit, uses)


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
        uses: ArgumentUses,
    ) -> None:
        self.recorder = recorder
        self.device = recorder.device
        self.function = function
        self.name = name
        self.limit = limit
        self.tensors = uses.tensors
        self.given = uses.given
        self.written = uses.written - uses.given
        self.static = uses.static | self.written
        self.fixed = uses.static & self.written
        """Arguments of which there must be no copy."""
        self.refusal = ""
        """Why nothing is recorded any more."""
        self.lending = Lending()
        self.moving: frozenset[int] = frozenset()
        """Arguments, not static ones, that have lain at different addresses in calls with one key."""
        self._keys: dict[tuple[Any, ...], Key] = {}
        self._ticks = 0
        self._key: tuple[Any, ...] | None = None
        """The key of the last replay."""
        self._replay: Replay | None = None

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.recorder.drop(
                [known.replay.lent for known in self._keys.values() if known.replay is not None]
            )

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
            if replay is not None and replay.lent.is_lent:
                replay = self._returned(replay, key, args, numbers)
            if replay is not None and replay.overlaps:
                replay = self._apart(replay, key, args, numbers)
            if replay is not None:
                return self._replayed(replay, args, stream)
            known = self._keys[key]
            is_warm_up = known.may_warm_up and self._has_room()
            known.warm_ups += is_warm_up
        if is_warm_up:
            return self.device.warm_up(lambda: self.function(args, *numbers))
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
        replay.lent.is_lent = True
        if replay.owned is not self.lending.owned:
            replay.owned = self.lending.owned
            replay.give = device.giver(replay.lent.results, replay.owned)
        return replay.give()

    def _returned(
        self, replay: Replay, key: tuple[Any, ...], args: list[Any], numbers: tuple[Any, ...]
    ) -> Replay | None:
        """The recording, where no caller holds results of its last replay; a new one, which leaves them their memory, where that
        is not the first time."""
        lent, lending = replay.lent, self.lending
        held = lent.held()
        if not held and not lent.is_stale:
            lent.is_lent = False
            return replay
        if not lending.owned.issuperset(held):
            lending.owned |= held
            _LOG.info("%s: a caller holds results %s across calls; they are copied", self.name, sorted(held))
            return None
        if not lent.taken.isdisjoint(held):
            return None  # their memory is another recording's, and cannot be left to the caller
        return self._anew(key, args, numbers)

    def _apart(
        self, replay: Replay, key: tuple[Any, ...], args: list[Any], numbers: tuple[Any, ...]
    ) -> Replay | None:
        """The recording, where no caller holds results of others that lie where it writes; else a new one, or None."""
        for overlap in [*replay.overlaps]:
            lent = overlap.lent
            held = lent.held() if lent.is_lent else frozenset()
            inside = held & overlap.positions
            if inside:
                if not self._yields(replay, Overlap(lent, inside), args):
                    return None
                made = self._anew(key, args, numbers)
                return None if made is None else self._apart(made, key, args, numbers)
            lent.is_lent = bool(held) or lent.is_stale
        gone = [each for each in replay.overlaps if each.lent.is_given_up and not each.lent.is_lent]
        for each in gone:
            replay.overlaps.remove(each)
        return replay

    def _yields(self, replay: Replay, found: Overlap, args: list[Any]) -> bool:
        """Whether a recording that would write over results of another one, which callers hold, is made anew, elsewhere. Else this call
        runs as it is, and the results of the other function are copied from now on."""
        lent, inside = found.lent, found.positions
        if not lent.taken.isdisjoint(inside):  # forward, another function, backward
            lent.part(for_good=True)
            return False
        if any(each.lent is replay.lent for each in lent.takes):  # gradients are held while forward is called
            replay.lent.part(for_good=True)
            lent.mark_stale()
            _LOG.info("%s: what lies in its results' memory is held across calls, and now apart", self.name)
            return True
        if lent.is_given_up or lent.function.owned.issuperset(inside) or self._are_given(found, args):
            return True
        lent.function.owned |= inside
        return False

    def _are_given(self, found: Overlap, args: list[Any]) -> bool:
        """Whether some of these results are among the arguments."""
        spans = {*self.device.spans([args[i] for i in self.tensors])}
        return any(found.lent.spans[i] in spans for i in found.positions)

    def _anew(self, key: tuple[Any, ...], args: list[Any], numbers: tuple[Any, ...]) -> Replay | None:
        """Another recording, where one can be made now."""
        self._forget(self._keys[key])
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
        self.recorder.forget_dropped()
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
        self.moving |= known.moved(here) - self.static
        for i in self.moving:
            here[i] = known.seen[i] = None
        before = known.copied
        lent = self.recorder.memory.lent([args[i] for i in self.tensors])  # come back to where they are
        is_steady = known.is_steady(here, self.fixed, {self.tensors[i] for i in lent})
        if known.copied != before:
            _LOG.info(
                "%s: arguments %s lie elsewhere in each call; they are copied",
                self.name,
                sorted(known.copied - before),
            )
        if not is_steady or (known.replay is None and not self._make_room()):
            return None
        known.moves = 0
        self._forget(known)
        if self.recorder.memory.part_from([args[i] for i in self.tensors]):
            return None
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

    def _remember(self, key: tuple[Any, ...], seen: list[int | None]) -> None:
        if len(self._keys) >= _KNOWN:  # those without a recording, the oldest first
            for old in [k for k, known in self._keys.items() if known.replay is None][: _KNOWN // 2]:
                del self._keys[old]
        self._keys[key] = Key(seen, frozenset())

    def _recordings(self) -> list[Key]:
        return [known for known in self._keys.values() if known.replay is not None]

    def _has_room(self) -> bool:
        """Whether one more recording may be made without forgetting one."""
        return len(self._recordings()) < self.limit

    def _make_room(self) -> bool:
        """Whether one more recording may be made; forgets one that is not used any more."""
        if self._has_room():
            return True
        oldest = min(self._recordings(), key=lambda known: known.used, default=None)
        if oldest is None or self._ticks - oldest.used < _UNUSED * self.limit:
            return False
        self.device.wait()
        self._forget(oldest)
        return True

    def _forget(self, known: Key) -> None:
        replay, known.replay = known.replay, None
        if replay is None:
            return
        self.device.wait()
        if self._replay is replay:
            self._key = self._replay = None
        replay.give = tuple  # whoever has it still lets go of the results
        self.recorder.memory.remove(replay.lent)

    def _record(self, known: Key, args: list[Any], numbers: tuple[Any, ...]) -> Replay:
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
        tensors = {i: args[i] for i in self.tensors}
        takes, handed = self.recorder.memory.take(self.lending, tensors, self.given.intersection(bound))
        for i in copied:
            if i not in self.written:  # is read until its last use, and free from then on
                [handed[i]] = self.device.release(given[i], [given[i]])

        def run() -> tuple[Any, ...]:
            return self.function([handed.pop(i, x) for i, x in enumerate(given)], *numbers)

        run_again, results = self.device.record(run)
        lent, overlaps = self.recorder.memory.add(self.lending, results, takes)
        return Replay(
            run=run_again,
            lent=lent,
            overlaps=overlaps,
            addresses=self.device.addresses(args, bound),
            fits=self.device.checker(args, bound),
            copied=tuple(copied),
            buffers=buffers,
            written=written,
            give=self.device.giver(results, self.lending.owned),
            owned=self.lending.owned,
        )
