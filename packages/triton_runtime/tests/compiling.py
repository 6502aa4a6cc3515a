"""Jobs for the tests of compiler processes, and a helper that kills their server."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from triton_runtime.compile import CompileJob, make_job
from triton_runtime.compile.forking import Forker
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


def cuda(arch: str) -> ir.Target:
    return ir.Target(device=ir.Device("cuda", 0), arch=arch)


def job_of(kernel: ir.TritonKernel, folder: Path, arch: str = "sm_90", config: int = 0) -> CompileJob:
    return make_job(kernel, kernel.configs[config], cuda(arch), str(folder))


def kill_server(forker: Forker) -> None:
    """Kills the server and waits for its end."""
    assert forker.pid is not None
    os.kill(forker.pid, signal.SIGKILL)
    os.waitpid(forker.pid, 0)
