"""Which vector instructions torch may write C++ for, found out in tenths of a second.

Torch asks by building and loading up to eleven shared libraries, four of them with all of torch's vector headers. What
decides is whether the compiler knows the instructions, and whether this torch exports the functions of its vector library.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch
from torch._inductor.cpp_builder import CppTorchOptions
from torch._inductor.cpu_vec_isa import VecISA

from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import VECTOR_BUILDS

_FUNCTIONS = {256: "Sleef_expf8_u10", 512: "Sleef_expf16_u10"}
"""A function of torch's vector library, by the bits of its vectors: all of a width are built or none."""
_VECTORS = "typedef float V __attribute__((vector_size({size}))); V twice(V x) {{ return x + x; }}\n"
_plain = VecISA.check_build


@contextmanager
def quick_checks() -> Iterator[None]:
    """Torch's questions are answered by `supports`, as far as it knows this machine. Answers are torch's own, and it
    remembers them, as it does those of its builds."""
    if sys.platform == "linux" and platform.machine() == "x86_64":
        with replaced(VECTOR_BUILDS.by(check_build=supports)):
            yield
    else:
        yield


def supports(isa: VecISA, code: str) -> bool:
    """Whether `code`, one of torch's tests, would become a library that can be loaded."""
    if code != VecISA._avx_code:  # instructions alone: what is compiled can be loaded
        return _compiles(isa, code)
    width = isa.bit_width()
    if not _exports(_FUNCTIONS.get(width, "")):
        return _plain(isa, code)
    return _compiles(isa, _VECTORS.format(size=width // 8))


def _compiles(isa: VecISA, code: str) -> bool:
    """Whether compiler and assembler take this C++ with the flags that Inductor would build it with.

    The flags come from Inductor's own options, not from `isa` alone: `-march=native` among them lets the compiler use what
    this CPU has, so that AMX code compiles under AVX-512's flags on a CPU with AMX and nowhere else.
    """
    options = CppTorchOptions(vec_isa=isa, warning_all=False)
    flags = [f"-{flag}" for flag in options.get_cflags()]
    for argument in options.get_passthrough_args():
        flags += shlex.split(argument)
    command = [options.get_compiler(), *flags, "-x", "c++", "-c", "-", "-o", os.devnull]
    done = subprocess.run(command, input=code.encode(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


@cache
def _exports(function: str) -> bool:
    """Whether torch's library for CPUs has this function."""
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    except OSError:
        return False
    return hasattr(library, function)
