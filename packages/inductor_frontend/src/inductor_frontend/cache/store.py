"""The cache on disk: one file an entry, named by its key, found whole or not at all.

```
<folder>/1/graphs/<2 letters>/<key>.wir       one graph's program, with what upstream is told about it
          functions/<2 letters>/<key>.json    a whole function: which graphs, and what autograd does around them
```

An entry is written beside its place and renamed into it, so readers see all of it or nothing, whoever is killed when.
Both kinds of files hold hashes of what is in them; a file that does not fit them counts as absent and is removed. Any
file may be deleted at any time. Reading an entry makes it young; the oldest go when the folder is too large.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from inductor_frontend.cache.statistics import count, count_bypass

__all__ = ["DamagedEntry", "Store"]

T = TypeVar("T")

_LAYOUT = "1"
_STALE_SECONDS = 24 * 3600
_LOW_WATER = 0.8


class DamagedEntry(Exception):
    """An entry is not what its writer wrote."""


@dataclass(frozen=True, slots=True)
class Store:
    """One cache folder, and how many bytes it may hold."""

    folder: Path
    limit_bytes: int

    def read(self, name: str, read: Callable[[Path], T]) -> T | None:
        """What `read` makes of an entry; None where there is none. One that `read` refuses (DamagedEntry) is reported,
        counted and removed."""
        path = self._path(name)
        try:
            os.utime(path)
            return read(path)
        except OSError:
            return None
        except DamagedEntry as error:
            count("damaged")
            warnings.warn(
                f"[FE501] the cache entry {path} is damaged and was removed: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
            path.unlink(missing_ok=True)
            return None

    def write(self, name: str, write: Callable[[Path], None]) -> None:
        """Makes an entry: `write` writes a file, which is then renamed. A folder that cannot be written is not an error:
        what would have been cached is compiled again."""
        path = self._path(name)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(temporary)
            os.replace(temporary, path)
        except OSError as error:
            count_bypass(f"the folder cannot be written: {error.strerror}")
            return
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        count("stored")
        self._shrink()

    # Any: what JSON holds

    def read_json(self, name: str, read: Callable[[Any], T]) -> T | None:
        """As `read`, of an entry written by `write_json`."""
        return self.read(name, lambda path: read(_read_sealed(path)))

    def write_json(self, name: str, body: Any) -> None:
        """Writes a JSON entry behind its hash."""
        text = json.dumps(body, sort_keys=True)
        sealed = f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}"
        self.write(name, lambda path: _write_text(path, sealed))

    def _path(self, name: str) -> Path:
        kind, _, key = name.partition("/")
        return self.folder / _LAYOUT / kind / key[:2] / key

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """(last use, bytes, path) of every file; files that vanish meanwhile are left out."""
        for path in (self.folder / _LAYOUT).glob("*/*/*"):
            with contextlib.suppress(OSError):
                found = path.stat()
                yield found.st_mtime, found.st_size, path

    def _shrink(self) -> None:
        """Removes the oldest entries once the folder is over its limit, and what killed writers left behind."""
        files = sorted(self._files())
        total = sum(size for _, size, _ in files)
        limit = self.limit_bytes * _LOW_WATER if total > self.limit_bytes else total
        stale = time.time() - _STALE_SECONDS
        for used, size, path in files:
            abandoned = path.name.startswith(".")
            if (used < stale) if abandoned else (total > limit):
                with contextlib.suppress(OSError):
                    path.unlink()
                    total -= size
                    count("evicted", 0 if abandoned else 1)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _read_sealed(path: Path) -> Any:
    try:
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
    except UnicodeDecodeError as error:
        raise DamagedEntry("it is not UTF-8") from error
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        raise DamagedEntry("it does not fit its hash")
    return json.loads(text)
