"""Compiles kernels on a Ray cluster through a small executor.

Ray allows 30 s for the start of a local cluster, which a busy machine may exceed: the test retries.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
import ray
from packages.triton_runtime.tests.compiling import MemoryStore, compile_all
from packages.triton_runtime.tests.triton_texts import add_kernel

from triton_runtime.compile.forking import Forker
from triton_runtime.compile.job import make_job
from triton_runtime.compile.service import CompileStats, Workers
from wrapper_ir import ir

pytestmark = pytest.mark.slow
_TRIES = 4


class RayExecutor(Executor):
    """Each call is a task of the cluster."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = ray.remote(fn).remote(*args, **kwargs).future()
        return future


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two processes on this machine with the packages of this one."""
    root = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    for remaining_tries in reversed(range(_TRIES)):
        try:
            ray.init(
                num_cpus=2,
                include_dashboard=False,
                object_store_memory=80 << 20,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": {"PYTHONPATH": path}},
            )
            break
        # Ray has no specific class
        except Exception as error:
            ray.shutdown()
            if "timed out during startup" not in str(error) or not remaining_tries:
                raise
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_ray_cluster_compiles(tmp_path: Path, forker: Forker) -> None:
    kernel = add_kernel()
    target = ir.Target(device=ir.Device("cuda", 0), arch="sm_90")
    jobs = [make_job(kernel, config, target, str(tmp_path)) for config in kernel.configs]
    stats = CompileStats()
    there = compile_all(jobs, MemoryStore(), Workers(executor=RayExecutor()), stats)
    assert (stats.compiled, stats.retried) == (2, 0)
    assert there == compile_all(jobs, MemoryStore(), Workers(forker=forker))
