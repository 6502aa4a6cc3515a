"""The C++ compiler, and the flags for kernels and for the launcher."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass

from cpp_wrapper._compat import torch_build, torch_include_dirs, torch_library_dir
from cpp_wrapper.errors import CompileError
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.runtime_build import COMMON_FLAGS, compiler_version

_LAYOUT = "2"
"""Part of every key: raise it when generated code or the form of cache entries changes."""

# Floating point: values must be those of eager mode and of Inductor. So: no reassociation, no
# contraction to FMA (`COMMON_FLAGS`), NaN and infinity kept, errno kept (without it the compiler folds libm pairs in ways that lose
# NaN). What is given up is only what nobody observes: traps and the sign of zero.
_MATH = (
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fmath-errno",
    "-fno-finite-math-only",
    "-fno-unsafe-math-optimizations",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A compiler: its command and what it says about itself (version and target machine)."""

    command: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that turns a source file into a shared library, but the files."""

    toolchain: Toolchain
    flags: tuple[str, ...]
    includes: tuple[str, ...]
    links: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Sha256 (hex) over all outside a source text that decides what the compiler makes of it.

        Folder names are left out: the same torch in another folder gives the same library, and what includes no header of
        torch is the same without it.
        """
        torch = torch_build() if self.includes else ""
        parts = (_LAYOUT, self.toolchain.version, torch, *self.flags, *self.links)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def find_toolchain(command: str) -> Toolchain:
    """Asks `command` for its version. Raises CompileError CPP101 where it cannot be run."""
    hint = "install g++ (Debian and Ubuntu: `apt-get install g++`), or name a compiler in WRAPPER_IR_CXX"
    path = shutil.which(command)
    if path is None:
        raise CompileError("CPP101", f"no C++ compiler: '{command}' is not on PATH", hint)
    try:
        return Toolchain(command=path, version=compiler_version(path))
    except subprocess.CalledProcessError as cause:
        raise CompileError("CPP101", f"'{command} -v' failed: {cause.stderr.strip()[:500]}", hint) from cause


def kernel_recipe(toolchain: Toolchain, isa_args: Sequence[str], options: CppOptions) -> Recipe:
    """How a library of kernels is built."""
    # The kernel's author has vectorised by hand; the compiler's own vectoriser only makes the masked tails slower.
    gcc = () if "clang" in toolchain.version else ("-fexcess-precision=fast", "-fno-tree-loop-vectorize")
    debug = ("-g1", "-fno-omit-frame-pointer") if options.debug_info else ()
    # With these two the kernel prefix takes only torch headers that stand alone.
    torch_macros = ("-DSTANDALONE_TORCH_HEADER", "-DC10_USING_CUSTOM_GENERATED_MACROS")
    return Recipe(
        toolchain=toolchain,
        flags=(
            *COMMON_FLAGS,
            f"-O{options.opt_level}",
            "-fopenmp",
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
    """How the launcher extension is built: for this Python, against torch's tensor headers."""
    python = f"-DWRAPPER_IR_PYTHON={platform.python_implementation()}_{sysconfig.get_config_var('SOABI')}"
    return Recipe(
        toolchain=toolchain,
        flags=(*COMMON_FLAGS, "-O2", python),
        includes=(f"-I{sysconfig.get_path('include')}", *_torch_includes()),
        links=("c10",),
    )


def library_recipe(toolchain: Toolchain, options: CppOptions) -> Recipe:
    """How the program of a library is built, which includes no header of torch, and how the library is linked."""
    debug = ("-g1", "-fno-omit-frame-pointer") if options.debug_info else ()
    return Recipe(
        toolchain=toolchain,
        flags=(*COMMON_FLAGS, f"-O{min(options.opt_level, 1)}", "-fopenmp", *debug),
        includes=(),
        links=(),
    )


def link_args(recipe: Recipe) -> tuple[str, ...]:
    """Linker arguments. torch's libraries are in the process already and are found by name: no run path."""
    return ("-shared", f"-L{torch_library_dir()}", *(f"-l{name}" for name in recipe.links))


def _torch_includes() -> tuple[str, ...]:
    return tuple(f"-I{path}" for path in torch_include_dirs())
