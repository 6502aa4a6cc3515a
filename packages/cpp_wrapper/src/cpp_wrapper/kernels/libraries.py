"""Libraries of kernels in the cache.

Namespace `cpp` contains libraries of one or many kernels, each with its source (`kernels.so`; `kernels.cpp`
for profilers and readers). For each kernel, a note names its library. Sources that the compiler refused are
kept for the command in the message. Namespace `cpp-headers` contains the precompiled common header.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from wrapper_ir_runtime.cache import Cache, Entry, Store

LIBRARY, SOURCE, HEADER = "kernels.so", "kernels.cpp", "kernel_prefix.h"
_SYMBOL = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True, slots=True)
class Content:
    """A kernel of a library: cache key, symbol, and readable name."""

    key: str
    symbol: str
    name: str


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """A kernel's trampoline: a library in use, and a symbol."""

    entry: Entry
    symbol: str

    @property
    def library(self) -> Path:
        """The shared library."""
        return self.entry.folder / LIBRARY


@dataclass(frozen=True, slots=True)
class Libraries:
    """Libraries built with one recipe, identified by its fingerprint."""

    cache: Cache
    recipe: str

    def find(self, keys: Iterable[str]) -> dict[str, BuiltKernel]:
        """Returns the kernels whose library exists and is complete, by key. Reads each library once."""
        notes = {key: note for key in keys if (note := self._note(key)) is not None}
        libraries = {name: self._store.find(name) for name in {name for name, _ in notes.values()}}
        return {
            key: BuiltKernel(entry, symbol)
            for key, (name, symbol) in notes.items()
            if (entry := libraries[name]) is not None
        }

    def add(
        self, contents: Iterable[Content], compile_into: Callable[[Path], None]
    ) -> dict[str, BuiltKernel]:
        """Adds the library and its source, which `compile_into` writes into a folder.

        Returns its kernels by key.

        Raises StoreError and the errors of `compile_into`.
        """
        by_key = {content.key: content for content in contents}
        name = f"library {self.recipe} {hashlib.sha256(' '.join(sorted(by_key)).encode()).hexdigest()}"
        entry = self._store.add(name, compile_into)
        for content in by_key.values():
            note = {"library": name, "symbol": content.symbol, "name": content.name}
            self._store.put(self._kernel(content.key), json.dumps(note).encode())
        return {key: BuiltKernel(entry, content.symbol) for key, content in by_key.items()}

    def forget(self, keys: Iterable[str]) -> None:
        """Removes kernels and their libraries, which failed to load."""
        for key in keys:
            if (note := self._note(key)) is not None:
                self._store.remove(note[0])
            self._store.remove(self._kernel(key))

    def alone_some(self, keys: Iterable[str]) -> AbstractContextManager[frozenset[str]]:
        """See `Store.alone_some`."""
        return self._store.alone_some(keys)

    def alone(self, key: str, timeout: float) -> AbstractContextManager[bool]:
        """See `Store.alone`."""
        return self._store.alone(key, timeout)

    def refused_source(self, text: str) -> Entry:
        """Stores the unit of a kernel that is compiled alone. The file stays if the compiler refuses it."""
        return self._store.add(
            self._refused(text), lambda folder: (folder / SOURCE).write_text(text, encoding="utf-8")
        )

    def accept(self, text: str) -> None:
        """Removes the file of `refused_source`."""
        self._store.remove(self._refused(text))

    def count(self, more: int = 0) -> int:
        """Adds `more` to the number of libraries built with this recipe, and returns it.

        Concurrent updates may be lost.
        """
        data = self._store.get(f"built {self.recipe}") or b""
        total = (int(data) if data.isdigit() else 0) + more
        if more:
            self._store.put(f"built {self.recipe}", str(total).encode())
        return total

    def header(self, make: Callable[[Path], None] | None) -> Entry | None:
        """Returns the precompiled header, `HEADER` and `HEADER`.gch. If none exists, `make` writes it.

        Returns None if `make` is None or another process is building the header.
        """
        store = self.cache.store("cpp-headers")
        if (entry := store.find(self.recipe)) is not None or make is None:
            return entry
        with store.alone(self.recipe, 0) as mine:
            return store.add(self.recipe, make) if mine else None

    def forget_header(self) -> None:
        """Removes the precompiled header."""
        self.cache.store("cpp-headers").remove(self.recipe)

    @property
    def _store(self) -> Store:
        return self.cache.store("cpp")

    def _kernel(self, key: str) -> str:
        return f"kernel {self.recipe} {key}"

    def _refused(self, text: str) -> str:
        return f"refused {self.recipe} {hashlib.sha256(text.encode()).hexdigest()}"

    def _note(self, key: str) -> tuple[str, str] | None:
        """Returns the name of a kernel's library, and its symbol."""
        data = self._store.get(self._kernel(key))
        note: object = None if data is None else json.loads(data)
        match note:
            case {"library": str(library), "symbol": str(symbol)} if _SYMBOL.match(symbol):
                return library, symbol
            case _:
                return None
