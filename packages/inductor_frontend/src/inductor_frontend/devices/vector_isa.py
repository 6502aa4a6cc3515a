"""Determines in tenths of a second which vector instruction sets torch may generate C++ for.

Torch builds and loads up to eleven shared libraries for this, four of them with all of its vector headers.
The result depends only on whether the compiler supports the instructions, and whether this torch exports the
functions of its vector library.
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
"""A function of torch's vector library, by vector width in bits. A build has either all functions of a width
or none."""
_VECTORS = "typedef float V __attribute__((vector_size({size}))); V twice(V x) {{ return x + x; }}\n"
_plain = VecISA.check_build


@contextmanager
def quick_checks() -> Iterator[None]:
    """Replaces the checks of torch by `supports` on x86-64 Linux, while the context is active.

    The results are the same, and torch caches them like the results of its builds.
    """
    if sys.platform == "linux" and platform.machine() == "x86_64":
        with replaced(VECTOR_BUILDS.by(check_build=supports)):
            yield
    else:
        yield


def supports(isa: VecISA, code: str) -> bool:
    """Returns whether `code`, one of torch's tests, would build a library that can be loaded."""
    if code != VecISA._avx_code:  # uses instructions only: a library that compiles can be loaded
        return _compiles(isa, code)
    width = isa.bit_width()
    if not _exports(_FUNCTIONS.get(width, "")):
        return _plain(isa, code)
    return _compiles(isa, _VECTORS.format(size=width // 8))


def _compiles(isa: VecISA, code: str) -> bool:
    """Returns whether compiler and assembler accept this C++ with Inductor's flags.

    The flags come from Inductor's own options, not from `isa` alone. Among them, `-march=native` lets the
    compiler use all features of this CPU, so that AMX code compiles under AVX-512's flags only on a CPU with
    AMX.
    """
    options = CppTorchOptions(vec_isa=isa, warning_all=False)
    flags = [f"-{flag}" for flag in options.get_cflags()]
    for argument in options.get_passthrough_args():
        flags += shlex.split(argument)
    command = [options.get_compiler(), *flags, "-x", "c++", "-c", "-", "-o", os.devnull]
    result = subprocess.run(
        command, input=code.encode(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return result.returncode == 0


@cache
def _exports(function: str) -> bool:
    """Returns whether torch's CPU library exports this function."""
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    except OSError:
        return False
    return hasattr(library, function)
