"""Kernels are compiled on a Ray cluster, through an executor of a few lines. Ray is not among the tests' packages: it is large, and gives a
local cluster 30 s to start, which busy processors do not always keep."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from packages.triton_runtime.tests.triton_texts import add_kernel

from triton_runtime.compile import CompileStats, MemoryStore, Workers, compile_all, make_job
from triton_runtime.compile.forking import Forker
from wrapper_ir.program import Target
from wrapper_ir.types import Device

ray: Any = pytest.importorskip("ray", reason="a Ray cluster is made where ray is installed")
pytestmark = pytest.mark.conformance


class RayExecutor(Executor):
    """Each call is a task of the cluster."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        made: Future[Any] = ray.remote(fn).remote(*args, **kwargs).future()
        return made


@pytest.fixture
def cluster() -> Iterator[None]:
    """Two processes on this machine, with the packages of this one."""
    root = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=80 << 20,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": path}},
    )
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_ray_cluster_compiles(tmp_path: Path, forker: Forker) -> None:
    kernel = add_kernel()
    target = Target(device=Device("cuda", 0), arch="sm_90")
    jobs = [make_job(kernel, config, target, str(tmp_path)) for config in kernel.configs]
    stats = CompileStats()
    there = compile_all(jobs, MemoryStore(), Workers(executor=RayExecutor()), stats)
    assert (stats.compiled, stats.retried) == (2, 0)
    assert there == compile_all(jobs, MemoryStore(), Workers(forker=forker))
