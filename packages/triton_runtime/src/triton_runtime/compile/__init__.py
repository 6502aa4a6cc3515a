"""From a kernel and a config to a binary for a device that need not be there.

`job` says what is to be compiled, `compiler` does it in this process, `pool` runs it in processes of its own, and
`service` does many at once with what a store already has.
"""

from triton_runtime.compile.compiler import compile_job
from triton_runtime.compile.job import CompileJob, make_job
from triton_runtime.compile.pool import WorkerDied, WorkerPool
from triton_runtime.compile.service import CompileStats, MemoryStore, compile_all, compile_each

__all__ = [
    "CompileJob",
    "CompileStats",
    "MemoryStore",
    "WorkerDied",
    "WorkerPool",
    "compile_all",
    "compile_each",
    "compile_job",
    "make_job",
]
