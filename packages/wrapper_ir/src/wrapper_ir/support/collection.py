"""Pausing Python's cyclic garbage collector around work that allocates much and leaves no cycles.

Programs are large heaps of immutable objects; without a pause the collector walks all of them again and again while
a pass or a check makes its own, which costs more than the work (measured: half of a verification of 100,000 ops).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """Switches automatic collection off inside, and on again afterwards if it was on. It is the interpreter's own
    switch: other threads are not collected either for that time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
