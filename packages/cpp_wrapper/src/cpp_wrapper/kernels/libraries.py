"""Libraries in the cache: which of them holds a kernel, found whole or not at all.

Namespace `cpp`: a library with its source (`kernels.so`, and `kernels.cpp` for profilers and people), which may hold many
kernels; for each kernel a note of the library that holds it; sources that the compiler refused, for the command in the
message. Namespace `cpp-headers`: the common header, precompiled.
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
    """One kernel that a library holds: its key, its symbol, and a name for people."""

    key: str
    symbol: str
    name: str


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """A library in use, and the symbol of a kernel's trampoline in it."""

    entry: Entry
    symbol: str

    @property
    def library(self) -> Path:
        """The file to open."""
        return self.entry.folder / LIBRARY


@dataclass(frozen=True, slots=True)
class Libraries:
    """The libraries that are built with one recipe, which its fingerprint names."""

    cache: Cache
    recipe: str

    def find(self, keys: Iterable[str]) -> dict[str, BuiltKernel]:
        """The kernels whose library is there and whole, by key. Each library is read once."""
        noted = {key: note for key in keys if (note := self._note(key)) is not None}
        libraries = {name: self._store.find(name) for name in {name for name, _ in noted.values()}}
        return {
            key: BuiltKernel(entry, symbol)
            for key, (name, symbol) in noted.items()
            if (entry := libraries[name]) is not None
        }

    def add(
        self, contents: Iterable[Content], compile_into: Callable[[Path], None]
    ) -> dict[str, BuiltKernel]:
        """Adds the library that `compile_into` writes into a folder, with its source; gives its kernels by key. Raises what
        that raises, and StoreError."""
        known = {content.key: content for content in contents}
        name = f"library {self.recipe} {hashlib.sha256(' '.join(sorted(known)).encode()).hexdigest()}"
        entry = self._store.add(name, compile_into)
        for content in known.values():
            note = {"library": name, "symbol": content.symbol, "name": content.name}
            self._store.put(self._kernel(content.key), json.dumps(note).encode())
        return {key: BuiltKernel(entry, content.symbol) for key, content in known.items()}

    def forget(self, keys: Iterable[str]) -> None:
        """Removes kernels, and the libraries that hold them (which turned out not to load)."""
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
        """The unit of a kernel that is compiled alone, in a file that stays if the compiler refuses it."""
        return self._store.add(
            self._refused(text), lambda folder: (folder / SOURCE).write_text(text, encoding="utf-8")
        )

    def accept(self, text: str) -> None:
        """Removes the file of `refused_source`."""
        self._store.remove(self._refused(text))

    def count(self, built: int = 0) -> int:
        """How many libraries have been built with this recipe, after `built` more; processes that count at once may lose
        some."""
        data = self._store.get(f"built {self.recipe}") or b""
        total = (int(data) if data.isdigit() else 0) + built
        if built:
            self._store.put(f"built {self.recipe}", str(total).encode())
        return total

    def header(self, make: Callable[[Path], None] | None) -> Entry | None:
        """The precompiled header, `HEADER` and `HEADER`.gch; where there is none, what `make` writes; None where `make` is
        None, or another process makes it now."""
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
        """The library and the symbol of a kernel."""
        data = self._store.get(self._kernel(key))
        found: object = None if data is None else json.loads(data)
        match found:
            case {"library": str(library), "symbol": str(symbol)} if _SYMBOL.match(symbol):
                return library, symbol
            case _:
                return None
