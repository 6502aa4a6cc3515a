"""A kernel whose config is chosen at its first launch, on that launch's arguments."""

from __future__ import annotations

import threading
from collections.abc import Callable

from triton_runtime.tune.tuner import Tuner
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel

LoadConfig = Callable[[ir.TritonKernel, ir.TritonConfig], LoadedKernel]


class TunedLaunch:
    """Called like any loaded kernel. `config` is the choice, None before the first launch."""

    def __init__(self, kernel: ir.TritonKernel, tuner: Tuner, load: LoadConfig) -> None:
        self.kernel = kernel
        self.config: ir.TritonConfig | None = None
        self._tuner, self._load = tuner, load
        self._lock = threading.Lock()
        self._loaded: LoadedKernel | None = None

    def __call__(self, *args: object) -> None:
        """Launches; tunes first if the config is unknown.

        Raises errors of tuning, loading and launching; a launch after a failure retries.
        """
        loaded = self._loaded
        if loaded is None:
            with self._lock:
                loaded = self._loaded = self._loaded or self._chosen(args)
        loaded(*args)

    def _chosen(self, args: tuple[object, ...]) -> LoadedKernel:
        self.config = self._tuner.choose(self.kernel, args)
        return self._load(self.kernel, self.config)
