"""Entries of the cache on disk (`wrapper_ir_runtime.cache`), namespace `graphs`: one compiled graph's program with what Inductor is
told about it (`graph.wir`), or a whole function: which graphs, and what autograd does around them (`function.json`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from wrapper_ir_runtime.cache import DamagedEntry, Store

T = TypeVar("T")


def read_entry(store: Store, key: str, read: Callable[[Path], T]) -> T | None:
    """What `read` makes of an entry's folder; None where there is none. One that `read` refuses (DamagedEntry) is reported,
    counted and set aside."""
    entry = store.find(key)
    if entry is None:
        return None
    with entry:
        try:
            return read(entry.folder)
        except DamagedEntry as error:
            store.refuse(entry, str(error))
            return None
