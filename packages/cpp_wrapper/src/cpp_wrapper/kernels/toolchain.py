"""The C++ compiler, and the flags for kernels and for the launcher."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cpp_wrapper._compat import torch_build, torch_include_dirs, torch_library_dir
from cpp_wrapper.errors import CompileError
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.runtime_build import COMMON_FLAGS, compiler_version

_LAYOUT = "2"
"""Part of every key: raise it when generated code or the form of cache entries changes."""

# Floating point: values must equal those of eager mode and of Inductor. So no reassociation, no contraction
# to FMA (`COMMON_FLAGS`); NaN, infinity and errno are kept (without errno the compiler folds pairs of libm
# calls in ways that lose NaN). Only traps and the sign of zero are given up, which no caller observes.
_MATH = (
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fmath-errno",
    "-fno-finite-math-only",
    "-fno-unsafe-math-optimizations",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A compiler: its command, and the version and target machine that it prints."""

    command: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that turns a source file into a shared library except the files."""

    toolchain: Toolchain
    flags: tuple[str, ...]
    includes: tuple[str, ...]
    links: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of everything except the source text that affects the compiler's output.

        Folder names are excluded: the same torch in another folder produces the same library. So is torch's
        version if no header of torch is included.
        """
        torch = torch_build() if self.includes else ""
        parts = (_LAYOUT, self.toolchain.version, torch, *self.flags, *self.links)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def find_toolchain(command: str) -> Toolchain:
    """Queries the version of `command`. Raises CompileError CPP101 if it cannot be run."""
    hint = "install g++ (Debian and Ubuntu: `apt-get install g++`), or name a compiler in WRAPPER_IR_CXX"
    path = shutil.which(command)
    if path is None:
        raise CompileError("CPP101", f"no C++ compiler: '{command}' is not on PATH", hint)
    try:
        return Toolchain(command=path, version=compiler_version(path))
    except subprocess.CalledProcessError as cause:
        raise CompileError("CPP101", f"'{command} -v' failed: {cause.stderr.strip()[:500]}", hint) from cause


def kernel_recipe(toolchain: Toolchain, isa_args: Sequence[str], options: CppOptions) -> Recipe:
    """Returns the recipe of a library of kernels."""
    # Kernels are vectorised by hand; the compiler's vectoriser only makes the masked tails slower.
    gcc = () if "clang" in toolchain.version else ("-fexcess-precision=fast", "-fno-tree-loop-vectorize")
    debug = ("-g1", "-fno-omit-frame-pointer") if options.debug_info else ()
    # With these two, the kernel prefix includes only standalone headers of torch.
    torch_macros = ("-DSTANDALONE_TORCH_HEADER", "-DC10_USING_CUSTOM_GENERATED_MACROS")
    return Recipe(
        toolchain=toolchain,
        flags=(
            *COMMON_FLAGS,
            f"-O{options.opt_level}",
            *_threads(options),
            *debug,
            *_MATH,
            *gcc,
            *isa_args,
            *torch_macros,
        ),
        includes=_torch_includes(),
        links=("torch_cpu", "c10"),
    )


def launcher_recipe(toolchain: Toolchain) -> Recipe:
    """Returns the recipe of the launcher extension: for this Python, with torch's tensor headers."""
    python = f"-DWRAPPER_IR_PYTHON={platform.python_implementation()}_{sysconfig.get_config_var('SOABI')}"
    return Recipe(
        toolchain=toolchain,
        flags=(*COMMON_FLAGS, "-O2", python),
        includes=(f"-I{sysconfig.get_path('include')}", *_torch_includes()),
        links=("c10",),
    )


def library_recipe(toolchain: Toolchain, options: CppOptions) -> Recipe:
    """Returns the recipe of a library's program, which includes no header of torch, and of linking the
    library.
    """
    debug = ("-g1", "-fno-omit-frame-pointer") if options.debug_info else ()
    return Recipe(
        toolchain=toolchain,
        flags=(*COMMON_FLAGS, f"-O{min(options.opt_level, 1)}", *_threads(options), *debug),
        includes=(),
        links=(),
    )


def operator_recipe(toolchain: Toolchain, isa_args: Sequence[str], options: CppOptions) -> Recipe:
    """Returns the recipe of operators of the native runtime. They promise tolerances, not torch's bits."""
    recipe = library_recipe(toolchain, options)
    level = (f"-O{min(options.opt_level, 2)}", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")
    return replace(recipe, flags=(*recipe.flags, *level, *isa_args))


def _threads(options: CppOptions) -> tuple[str, ...]:
    """Returns the flags for threads inside a call."""
    return () if options.threads == "none" else ("-fopenmp",)


def link_args(recipe: Recipe) -> tuple[str, ...]:
    """Returns linker arguments without a run path: the process has already loaded torch's libraries."""
    return ("-shared", f"-L{torch_library_dir()}", *(f"-l{name}" for name in recipe.links))


def _torch_includes() -> tuple[str, ...]:
    return tuple(f"-I{path}" for path in torch_include_dirs())
