"""Jobs for the tests of compiler processes, and a helper that kills their server."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from triton_runtime.compile.forking import Forker
from triton_runtime.compile.job import CompileJob, make_job
from triton_runtime.compile.service import CompileStats, Workers, compile_each
from triton_runtime.errors import without_errors
from triton_runtime.protocols import Binary, ByteStore
from wrapper_ir import ir

BROKEN = """
@triton.jit
def broken(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(x_ptr + at, x.no_such_thing)
"""
CLAUSES = "order(x_ptr, n, BLOCK)\n  configs({BLOCK = 128} warps(4) stages(1))\n  grid(1)"
PARAMS = "readwrite f32* x_ptr, i32 n"


class MemoryStore:
    """A store in memory."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """The bytes under `key`, or None."""
        return self._data.get(key)

    def put(self, key: str, data: bytes) -> None:
        """Stores `data`."""
        self._data[key] = data


def cuda(arch: str) -> ir.Target:
    return ir.Target(device=ir.Device("cuda", 0), arch=arch)


def job_of(kernel: ir.TritonKernel, folder: Path, arch: str = "sm_90", config: int = 0) -> CompileJob:
    return make_job(kernel, kernel.configs[config], cuda(arch), str(folder))


def kill_server(forker: Forker) -> None:
    """Kills the server and waits for its end."""
    assert forker.pid is not None
    os.kill(forker.pid, signal.SIGKILL)
    os.waitpid(forker.pid, 0)


def compile_all(
    jobs: Sequence[CompileJob],
    store: ByteStore,
    workers: Workers | None = None,
    stats: CompileStats | None = None,
) -> list[Binary]:
    """Compiles all jobs, or raises the first error."""
    return without_errors(compile_each(jobs, store, workers or Workers(), stats))
