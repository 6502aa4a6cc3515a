"""Compiles a kernel with a config to a binary; the target device need not be present.

`job` describes a compilation, `compiler` runs it in this process, and `pool` runs it in worker processes.
`service` compiles many jobs at once, using a store first, and this process (`local`) until the workers are
ready. Names are imported on first use: the process that compilers are forked from needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.support.lazy import loaded_on_use

if TYPE_CHECKING:
    from triton_runtime.compile.compiler import compile_job
    from triton_runtime.compile.forking import Forker, WorkerDied
    from triton_runtime.compile.job import CompileJob, make_job
    from triton_runtime.compile.local import LocalCompiler
    from triton_runtime.compile.pool import WorkerPool
    from triton_runtime.compile.service import CompileStats, MemoryStore, Workers, compile_all, compile_each

__all__ = [
    "CompileJob",
    "CompileStats",
    "Forker",
    "LocalCompiler",
    "MemoryStore",
    "WorkerDied",
    "WorkerPool",
    "Workers",
    "compile_all",
    "compile_each",
    "compile_job",
    "make_job",
]

_HOME = {
    "CompileJob": "job",
    "CompileStats": "service",
    "Forker": "forking",
    "LocalCompiler": "local",
    "MemoryStore": "service",
    "WorkerDied": "pool",
    "WorkerPool": "pool",
    "Workers": "service",
    "compile_all": "service",
    "compile_each": "service",
    "compile_job": "compiler",
    "make_job": "job",
}
"""The module of each public name."""

__getattr__, __dir__ = loaded_on_use(__name__, _HOME)
