"""Loads native checks of inputs from installed kernel runtimes, for programs whose kernels provide none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache

from wrapper_ir.plugins.protocols import StorageChecker
from wrapper_ir.plugins.registry import plugin, plugin_names

CALLS_BEFORE_NATIVE = 1000
"""Calls of a program before native code is loaded.

Importing a runtime takes tenths of a second. Building its launcher takes seconds, once per machine. These
calls spend about 2 ms on checks in Python.
"""


def find_native_check(use: Callable[[Callable[..., bool]], None]) -> None:
    """Loads a native check of storages in the background, and passes it to `use` if one is available."""

    def find() -> None:
        check = _native_check()
        if check is not None:
            use(check)

    threading.Thread(target=find, name="wrapper-ir-storage-check", daemon=True).start()


@lru_cache(maxsize=1)
def _native_check() -> Callable[..., bool] | None:
    for name in plugin_names("kernel_runtimes"):
        try:
            runtime = plugin("kernel_runtimes", name)
            check = runtime.storage_check() if isinstance(runtime, StorageChecker) else None
        except Exception:  # no compiler, or a read-only cache: the check in Python remains
            continue
        if check is not None:
            return check
    return None
