"""Compiles kernels on a cluster through the standard interface of executors."""

from __future__ import annotations

from pathlib import Path

import pytest
from distributed import Client, LocalCluster
from packages.triton_runtime.tests.compiling import MemoryStore, compile_all
from packages.triton_runtime.tests.triton_texts import add_kernel

from triton_runtime.compile.forking import Forker
from triton_runtime.compile.job import make_job
from triton_runtime.compile.service import CompileStats, Workers
from wrapper_ir import ir

pytestmark = pytest.mark.slow


def test_a_dask_cluster_compiles(tmp_path: Path, forker: Forker) -> None:
    kernel = add_kernel()
    target = ir.Target(device=ir.Device("cuda", 0), arch="sm_90")
    jobs = [make_job(kernel, config, target, str(tmp_path)) for config in kernel.configs]
    stats = CompileStats()
    with (
        LocalCluster(  # type: ignore[no-untyped-call]  # distributed has no types
            n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path / "dask")
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]  # distributed has no types
        client.get_executor() as executor,
    ):
        there = compile_all(jobs, MemoryStore(), Workers(executor=executor), stats)
    assert (stats.compiled, stats.retried) == (2, 0)
    assert there == compile_all(jobs, MemoryStore(), Workers(forker=forker))
