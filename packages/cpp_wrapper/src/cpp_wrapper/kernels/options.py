"""Options of the C++ kernel runtime."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CppOptions:
    """How kernels are built and launched.

    `check_args`: compare dtype, device and layout of every tensor with the definition at each launch. It costs
    about a nanosecond a tensor (`docs/benchmarks/cpp_launch.md`), so it is on. Arity and Python types are checked
    always: a launch never crashes on them.
    `opt_level`: 0 to 3, as in `-O3`.
    `debug_info`: keep line tables, so that a profiler or debugger shows the kernel's own lines.
    `precompile_after`: once the cache has built this many libraries with the same flags, precompile their common
    header (about 150 MB on disk; see `docs/benchmarks/cpp_build.md`); 0: at once; None: never.
    `timeout`: seconds that one compiler run may take.
    `oldest_torch`: major and minor version of the oldest torch under which a library is to run, from 2.11 on; None: the
    installed one. What that has no C function for goes through the dispatcher.
    `python_operators`: a library may call operators that exist in Python only. It then runs only in processes of Python that
    have registered them, as those do in which `torch.compile` runs. Programs with memory of process groups run there alone, and
    may call them always.
    `persistent_buffers`: libraries hold the memory of intermediate results of fixed sizes, and the tensors over it, from one call
    to the next, once for each call that runs at the same time and each stream of a device; calls that fail give theirs back to
    the system.
    `recordings`: how many CUDA graphs a recordable function of a program for a CUDA device may have at a time, in each of the calls
    that run at the same time and on each stream (see `docs/cuda-graphs.md`); 0: none.
    `archs`: architectures of CUDA devices (`sm_80`) that a program for one is to run on; empty: those that the artifact
    carries code for, else the one that it was captured for.
    """

    check_args: bool = True
    opt_level: int = 3
    debug_info: bool = False
    precompile_after: int | None = 4
    timeout: float = 600.0
    oldest_torch: tuple[int, int] | None = None
    python_operators: bool = False
    persistent_buffers: bool = False
    recordings: int = 16
    archs: tuple[str, ...] = ()
