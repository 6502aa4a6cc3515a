"""Reads entries of the cache on disk (`wrapper_ir_runtime.cache`), namespace `graphs`.

An entry is a compiled graph: its program with the facts that Inductor needs (`graph.wir`). Or it is a whole
function: the keys of its graphs, and the metadata of autograd's runtime wrappers (`function.json`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from wrapper_ir_runtime.cache import DamagedEntry, Store

T = TypeVar("T")


def read_entry(store: Store, key: str, read: Callable[[Path], T]) -> T | None:
    """Returns `read` of the folder of an entry; None if the entry does not exist.

    An entry that `read` refuses (DamagedEntry) is reported, counted and set aside.
    """
    entry = store.find(key)
    if entry is None:
        return None
    with entry:
        try:
            return read(entry.folder)
        except DamagedEntry as error:
            store.refuse(entry, str(error))
            return None
