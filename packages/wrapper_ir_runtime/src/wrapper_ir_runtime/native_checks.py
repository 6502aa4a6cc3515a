"""Native code for checks of inputs, of programs whose own kernels bring none: from the kernel runtimes that are installed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache

from wrapper_ir.plugins.protocols import StorageChecker
from wrapper_ir.plugins.registry import plugin, plugin_names

CALLS_BEFORE_NATIVE = 1000
"""Calls of a program before native code is looked for. Importing a runtime takes tenths of a second and building its launcher, once a
machine, seconds; these calls spend about 2 ms on checks in Python."""


def find_native_check(use: Callable[[Callable[..., bool]], None]) -> None:
    """Looks in the background for native code that checks storages, and gives it to `use` where there is some."""

    def find() -> None:
        found = _native_check()
        if found is not None:
            use(found)

    threading.Thread(target=find, name="wrapper-ir-storage-check", daemon=True).start()


@lru_cache(maxsize=1)
def _native_check() -> Callable[..., bool] | None:
    for name in plugin_names("kernel_runtimes"):
        try:
            runtime = plugin("kernel_runtimes", name)
            found = runtime.storage_check() if isinstance(runtime, StorageChecker) else None
        except Exception:  # no compiler, a cache that cannot be written: Python goes on
            continue
        if found is not None:
            return found
    return None
