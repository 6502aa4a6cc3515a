"""The cache on disk: libraries named by their own hash, and an entry for each kernel that says which one holds it.

```
<root>/cpp/<recipe>/kernels/<key>.json     {"library": "<sha256>.so", "symbol": "...", "name": "..."}
                    libraries/<sha256>.so  and the C++ source beside it, for profilers and people
                    locks/<name>.lock      held while a kernel of that shard is built
                    header/                the precompiled common header, once it pays
                    refused/<key>.cpp      sources that the compiler refused, for the command in the message
                    work/<random>/         builds in progress
```

Every file is written elsewhere and renamed into place, a library before the entries that name it, so a process
killed at any moment leaves nothing that another could load by mistake. A library is read only after its bytes gave
its name again; anything else counts as absent and is built anew. Any part may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from cpp_wrapper.errors import CacheError

__all__ = ["Content", "Entry", "Store", "write_atomic"]

_LIBRARY = re.compile(r"[0-9a-f]{64}\.so\Z")
_SYMBOL = re.compile(r"[A-Za-z_]\w*\Z")
_STALE_SECONDS = 24 * 3600
_SHARDS = 64


@dataclass(frozen=True, slots=True)
class Content:
    """One thing that a library holds: its key, its symbol, and a name for people."""

    key: str
    symbol: str
    name: str


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a compiled kernel is: a verified library and the symbol of its trampoline."""

    library: Path
    symbol: str


@dataclass(frozen=True, slots=True)
class Store:
    """One recipe's part of the cache."""

    folder: Path

    def find(self, keys: Iterable[str]) -> dict[str, Entry]:
        """The entries whose library is there and whole, by key. Each library is read once."""
        named = {key: entry for key in keys if (entry := self._read_entry(key)) is not None}
        sound = {library for library in {e.library for e in named.values()} if _is_whole(library)}
        return {key: entry for key, entry in named.items() if entry.library in sound}

    def publish(self, library: Path, source: Path, contents: Iterable[Content]) -> dict[str, Entry]:
        """Moves a built library and its source into the cache; gives the entries of its contents by key."""
        digest = _sha256(library)
        target = self._folder("libraries") / f"{digest}.so"
        os.replace(source, target.with_suffix(".cpp"))
        os.replace(library, target)
        entries: dict[str, Entry] = {}
        for content in contents:
            text = json.dumps({"library": target.name, "symbol": content.symbol, "name": content.name})
            write_atomic(self._folder("kernels") / f"{content.key}.json", text)
            entries[content.key] = Entry(target, content.symbol)
        return entries

    def forget(self, keys: Iterable[str]) -> None:
        """Removes entries and the libraries that they name (which turned out not to load)."""
        for key in keys:
            if (entry := self._read_entry(key)) is not None:
                entry.library.unlink(missing_ok=True)
            self._entry_path(key).unlink(missing_ok=True)

    def library_count(self) -> int:
        """How many libraries have been built with this recipe."""
        return sum(1 for _ in (self.folder / "libraries").glob("*.so"))

    def header_folder(self) -> Path:
        """Where the precompiled header stands."""
        return self._folder("header")

    def refused_path(self, key: str) -> Path:
        """Where a kernel's source is written before it is compiled alone; it stays only if it is refused."""
        return self._folder("refused") / f"{key}.cpp"

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """A folder for one build, on the cache's file system so that renames are atomic; removed afterwards."""
        self._sweep()
        work = self._folder("work") / secrets.token_hex(8)
        work.mkdir()
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)

    @contextlib.contextmanager
    def lock_some(self, keys: Iterable[str]) -> Iterator[frozenset[str]]:
        """Takes the locks of as many keys as are free now, without waiting, and gives those keys.

        Nobody ever waits for one lock while holding another, so processes with overlapping sets of kernels cannot
        block each other. Locks are per shard of the keys, to bound the number of open files.
        """
        shards: dict[str, list[str]] = {}
        for key in keys:
            shards.setdefault(_shard(key), []).append(key)
        with contextlib.ExitStack() as held:
            free = {shard for shard in sorted(shards) if held.enter_context(self.try_lock(shard))}
            yield frozenset(key for shard in free for key in shards[shard])

    @contextlib.contextmanager
    def try_lock(self, name: str) -> Iterator[bool]:
        """Holds a named lock if it is free now; gives whether it is held."""
        lock = self._lock(name)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    @contextlib.contextmanager
    def lock(self, name: str, timeout: float) -> Iterator[None]:
        """Holds a named lock. Raises CacheError CPP303 where it isn't free within `timeout` seconds."""
        lock = self._lock(name)
        try:
            lock.acquire(timeout=timeout)
        except Timeout as cause:
            raise CacheError(
                "CPP303",
                f"another process has held {lock.lock_file} for {timeout:g} s",
                "it is compiling the same kernel; end it, or raise CppOptions.timeout",
            ) from cause
        try:
            yield
        finally:
            lock.release()

    def wait_for(self, key: str, timeout: float) -> None:
        """Waits until nobody builds `key`. Raises CacheError CPP303 after `timeout` seconds."""
        with self.lock(_shard(key), timeout):
            pass

    def _read_entry(self, key: str) -> Entry | None:
        try:
            data = json.loads(self._entry_path(key).read_text())
            library, symbol = data["library"], data["symbol"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if not (isinstance(library, str) and _LIBRARY.match(library)):
            return None
        if not (isinstance(symbol, str) and _SYMBOL.match(symbol)):
            return None
        return Entry(self.folder / "libraries" / library, symbol)

    def _entry_path(self, key: str) -> Path:
        return self.folder / "kernels" / f"{key}.json"

    def _lock(self, name: str) -> BaseFileLock:
        return FileLock(self._folder("locks") / f"{name}.lock")

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _sweep(self) -> None:
        """Removes what killed builds left behind, a day later."""
        limit = time.time() - _STALE_SECONDS
        for work in self._folder("work").iterdir():
            with contextlib.suppress(OSError):
                if work.stat().st_mtime < limit:
                    shutil.rmtree(work, ignore_errors=True)


def write_atomic(path: Path, text: str) -> None:
    """Writes a file so that others see the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        temporary.write_text(text)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _is_whole(library: Path) -> bool:
    try:
        return _sha256(library) == library.stem
    except OSError:
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _shard(key: str) -> str:
    return f"{int(key[:4], 16) % _SHARDS:02d}"
