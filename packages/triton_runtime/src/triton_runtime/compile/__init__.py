"""From a kernel and a config to a binary for a device that need not be there.

`job` says what is to be compiled, `compiler` does it in this process, `pool` runs it in processes of its own, and
`service` does many at once with what a store already has, in this process (`local`) until the others are there.

Names are loaded when they are first used: the process that compilers are forked from needs few of them.
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
