"""The store: a folder of this machine, what stands in for it, and a shared level that is only read."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from triton_runtime.store.entry import DamagedEntry, EntryKind, pack, unpack
from triton_runtime.store.folder import Folder
from triton_runtime.store.shared import SharedLevel
from triton_runtime.store.statistics import Counters, StoreStatistics

__all__ = ["Store", "StoreOptions"]

_LOOK_AFTER = 64
"""A process looks at the folder's size once it has written a 64th of what may be in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Where entries are kept.

    `folder`: made when first written, for this user alone. `fallback`: a folder for when that one cannot be written;
    used only if it is this user's alone. `limit_bytes`: what the folder may hold; each process may exceed it by a 64th
    before it looks. `memory_bytes`: what is kept in memory where no folder takes it. `shared`: an fsspec URL of a
    level that is read where the folder has nothing, and never written; empty: none. `wait_seconds`: how long `make`
    waits for another process that makes the same entry.
    """

    folder: Path
    fallback: Path | None = None
    limit_bytes: int = 4 << 30
    memory_bytes: int = 256 << 20
    shared: str = ""
    wait_seconds: float = 600.0


class Store:
    """Payloads by key, on disk. Keys are texts that say all that the payload depends on; only their hash is stored.

    Safe among threads and processes, also when one is killed at any moment. Nothing here raises for the state of the
    disk: what cannot be read counts as absent, with a warning where somebody should know (TR401: a folder cannot be
    written; TR402: an entry is damaged; TR403: the shared level cannot be reached).
    """

    def __init__(self, options: StoreOptions) -> None:
        self.options = options
        self._folder = Folder(options.folder)
        self._fallback = Folder(options.fallback) if options.fallback is not None else None
        self._shared = SharedLevel(options.shared) if options.shared else None
        self._counters = Counters()
        self._lock = threading.Lock()
        self._memory: dict[tuple[EntryKind, str], bytes] = {}
        self._warned = False
        self._unseen: int | None = None
        """Bytes written since the size was last looked at; None: never looked."""

    def get(self, key: str, kind: EntryKind = EntryKind.KERNEL) -> bytes | None:
        """The payload that was put under `key`, None where there is none that is whole."""
        found = self._find(key, kind)
        self._counters.count("misses" if found is None else "hits")
        return found

    def put(self, key: str, data: bytes, kind: EntryKind = EntryKind.KERNEL) -> None:
        """Keeps a payload, instead of what is there."""
        entry = pack(kind, key, data)
        if self._write(key, kind, entry):
            self._counters.count("stored")
            self._look(len(entry))
        else:
            self._counters.count("unwritten")

    def make(self, key: str, make: Callable[[], bytes], kind: EntryKind = EntryKind.KERNEL) -> bytes:
        """The payload under `key`, made by `make` and put where it is absent; only one process at a time makes it.
        Raises what `make` raises. `make` must not call `make` of a store itself."""
        if (found := self.get(key, kind)) is not None:
            return found
        with self.alone(key):
            if (found := self._find(key, kind)) is not None:  # made by the one we waited for
                self._counters.count("hits")
                return found
            data = make()
            self.put(key, data, kind)
            return data

    @contextlib.contextmanager
    def alone(self, key: str) -> Iterator[bool]:
        """Keeps other processes and threads from making the entry of `key`; gives whether it does. Where it doesn't
        (a folder that cannot be written, a wait that took too long), go on: work may be done twice, no more."""
        with self._folder.alone(key, self.options.wait_seconds) as held:
            yield held

    def remove(self, key: str, kind: EntryKind = EntryKind.KERNEL) -> None:
        """Forgets an entry of this machine (that turned out to be of no use)."""
        with self._lock:
            self._memory.pop((kind, key), None)
        for folder in self._folders():
            folder.remove(kind, key)

    def shrink(self) -> None:
        """Removes what was unused for longest, if the folder is over its limit."""
        self._counters.count("evicted", self._folder.shrink(self.options.limit_bytes))

    def stats(self) -> StoreStatistics:
        """What this object did so far."""
        return self._counters.read()

    def _folders(self) -> list[Folder]:
        """Folders to look in. What lies in the fallback counts only if nobody else can have put it there."""
        fallback = self._fallback
        return [self._folder, *([fallback] if fallback is not None and fallback.is_private() else [])]

    def _find(self, key: str, kind: EntryKind) -> bytes | None:
        with self._lock:
            if (kept := self._memory.get((kind, key))) is not None:
                return kept
        for folder in self._folders():
            if (data := folder.read(kind, key)) is not None:
                if (payload := self._checked(data, key, kind, str(folder.path))) is not None:
                    return payload
                folder.remove(kind, key)
        if self._shared is None or (data := self._shared.read(kind, key)) is None:
            return None
        payload = self._checked(data, key, kind, self._shared.url)
        if payload is not None:
            self._counters.count("shared_hits")
            self.put(key, payload, kind)  # the next process finds it near
        return payload

    def _checked(self, data: bytes, key: str, kind: EntryKind, place: str) -> bytes | None:
        try:
            return unpack(data, kind, key)
        except DamagedEntry as error:
            self._counters.count("damaged")
            warnings.warn(
                f"[TR402] a {kind.value} in the cache {place} is damaged and not used: {error}",
                RuntimeWarning,
                stacklevel=4,
            )
            return None

    def _write(self, key: str, kind: EntryKind, entry: bytes) -> bool:
        """Writes into the folder; gives False where the entry went to the fallback or stays in memory."""
        try:
            self._folder.write(kind, key, entry)
            return True
        except OSError as error:
            problem = error
        place = "memory, for this process alone"
        if self._fallback is not None and self._try_fallback(self._fallback, key, kind, entry):
            place = str(self._fallback.path)
        else:
            self._remember(key, kind, unpack(entry, kind, key))
        self._warn(problem, place)
        return False

    def _try_fallback(self, fallback: Folder, key: str, kind: EntryKind, entry: bytes) -> bool:
        try:
            fallback.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not fallback.is_private():
                return False
            fallback.write(kind, key, entry)
        except OSError:
            return False
        fallback.shrink(self.options.limit_bytes)
        return True

    def _remember(self, key: str, kind: EntryKind, payload: bytes) -> None:
        with self._lock:
            self._memory[kind, key] = payload
            held = sum(map(len, self._memory.values()))
            while held > self.options.memory_bytes:
                oldest = next(iter(self._memory))
                held -= len(self._memory.pop(oldest))

    def _warn(self, problem: OSError, place: str) -> None:
        with self._lock:
            if self._warned:
                return
            self._warned = True
        warnings.warn(
            f"[TR401] the cache directory {self.options.folder} cannot be written ({problem.strerror or problem}); compiled "
            f"kernels go to {place}. Make room there, or set WRAPPER_IR_CACHE_DIR to a folder of your own.",
            RuntimeWarning,
            stacklevel=4,
        )

    def _look(self, written: int) -> None:
        """Looks at the folder's size now and then: at every entry it would cost more than the entry."""
        with self._lock:
            if self._unseen is not None and self._unseen + written <= self.options.limit_bytes // _LOOK_AFTER:
                self._unseen += written
                return
            self._unseen = 0
        self.shrink()
