"""Options of the C++ kernel runtime."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cpp_wrapper.errors import EmitError


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSource:
    """C++ text of operators for native libraries, and a schema for each (see `docs/native.md`)."""

    text: str
    schemas: tuple[str, ...]

    @classmethod
    def read(cls, path: str | Path, *schemas: str) -> OperatorSource:
        """Reads the text from a file. Raises OSError."""
        return cls(text=Path(path).read_text(encoding="utf-8"), schemas=schemas)


CPU_ISAS = ("avx512", "avx2", "generic") if platform.machine() in ("x86_64", "AMD64") else ("generic",)
"""Instruction sets of processors like this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CppOptions:
    """Options for building and launching kernels and libraries.

    `check_args`: compares dtype, device and layout of every tensor with the definition at each launch. It
    costs about a nanosecond a tensor (`docs/benchmarks/cpp_launch.md`). Arity and Python types are always
    checked: a launch never crashes on them.
    `opt_level`: 0 to 3, as in `-O3`.
    `debug_info`: keeps line tables, so that profilers and debuggers show the kernel's lines.
    `precompile_after`: after this many libraries with the same flags in the cache, precompiles their common
    header (about 150 MB on disk; see `docs/benchmarks/cpp_build.md`). 0: at once; None: never.
    `timeout`: seconds that one compiler run may take.
    `oldest_torch`: major and minor version of the oldest torch that the library supports, 2.11 or later;
    None: the installed one. Operators without a C function in that version are called through the dispatcher.
    `python_operators`: allows operators that exist in Python only. The library then runs only in Python
    processes that have registered them, such as those that run `torch.compile`. Programs with memory of
    process groups run only there, and may always call them.
    `persistent_buffers`: libraries keep the memory of intermediate results of fixed sizes, and its tensors,
    between calls: once for each concurrent call and each stream of a device. A failed call returns its memory
    to the system.
    `cuda_graphs`: maximum number of CUDA graphs of a replayable function, for each concurrent call and each
    stream (see `docs/cuda-graphs.md`). 0: none.
    `runtime`: `torch` links libraries to its C shim; `native` ones need the C++ standard library only.
    `weights`: place of a native library's constants: `inside` it; `beside` it, in a file of its name that
    ends in `.weights`; or the name of such a file, which several libraries share.
    `threads`: inside a call of a native library: `openmp`, or `none`.
    `operators`: sources of operators for native libraries, which replace the runtime's own of the same name.
    `cpu_isas`: instruction sets of a native library's operators if the program has no C++ kernels, whose sets
    they otherwise have: of `avx512`, `avx2` and `generic`. The first that the processor supports is called.
    `static_runtime`: links the C++ standard library into native libraries.
    `archs`: architectures of CUDA devices (`sm_80`) that the program supports; empty: those that the artifact
    has code for, or the one that it was captured for.
    """

    check_args: bool = True
    opt_level: int = 3
    debug_info: bool = False
    precompile_after: int | None = 4
    timeout: float = 600.0
    oldest_torch: tuple[int, int] | None = None
    python_operators: bool = False
    persistent_buffers: bool = False
    cuda_graphs: int = 16
    runtime: str = "torch"
    weights: str = "inside"
    threads: str = "openmp"
    operators: tuple[OperatorSource, ...] = ()
    cpu_isas: tuple[str, ...] = CPU_ISAS
    static_runtime: bool = False
    archs: tuple[str, ...] = ()


_VALUES = {"runtime": ("torch", "native"), "threads": ("openmp", "none")}
"""Values of options that are texts."""
_NATIVE_ONLY = ("weights", "threads", "operators", "cpu_isas", "static_runtime")
_TEXTS = (*_VALUES, "weights")


def check_options(options: CppOptions) -> None:
    """Raises EmitError CPP506 for an option with an unknown value, or one that the runtime does not have."""
    for name, values in _VALUES.items():
        value = getattr(options, name)
        if value not in values:
            raise EmitError("CPP506", f"{name}={value!r}: expected {' or '.join(map(repr, values))}")
    if options.runtime != "native":
        defaults = CppOptions()
        for name in _NATIVE_ONLY:
            if getattr(options, name) != getattr(defaults, name):
                raise EmitError("CPP506", f"{name} is an option of native libraries", "set runtime='native'")


def options_from_texts(settings: Mapping[str, str]) -> CppOptions:
    """Returns the options with these texts. Raises EmitError CPP506 for an unknown name or value."""
    for name in settings:
        if name not in _TEXTS:
            raise EmitError(
                "CPP506", f"{name} is not an option of C++ libraries", f"options: {', '.join(_TEXTS)}"
            )
    options = CppOptions(**dict(settings))  # type: ignore[arg-type]  # the texts among the options
    check_options(options)
    return options
