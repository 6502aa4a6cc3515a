"""Runs Inductor's compile tasks without a GPU: unchanged except for the driver look-up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

LoadKernel = Callable[[], Any]  # Any: Inductor's own class, which has no types


def compile_here(load: LoadKernel) -> None:
    """Does the work of `AsyncCompile.triton` while its pool starts, without launchers."""
    _without_driver()
    load().precompile(warm_cache_only=True)


def compile_in_worker(load: LoadKernel, environment: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    """Does the work of a process of Inductor's pool; sent there by its name."""
    from torch._inductor.runtime.compile_tasks import _worker_compile_triton

    _without_driver()
    return _worker_compile_triton(load, dict(environment), dict(settings))


def _without_driver() -> None:
    from torch._inductor.runtime import triton_helpers

    vars(triton_helpers)["set_driver_to_gpu"] = lambda: None
