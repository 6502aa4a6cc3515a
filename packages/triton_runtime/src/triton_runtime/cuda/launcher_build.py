"""Compiles the launcher at first use, and for wheels (`hatch_build.py`).

The hook runs this file without installed packages, so it imports only the standard library.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

SOURCE = Path(__file__).with_name("launcher.cpp")
INCLUDED = tuple(sorted(Path(__file__).with_name("launcher").glob("*.h")))
PREBUILT = Path(__file__).with_name("launcher.abi3.so")
"""The launcher in platform wheels; other wheels and checkouts have none."""
FLAGS = (
    "-std=c++20",
    "-O2",
    "-DNDEBUG",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-w",
    "-shared",
)
# the C++ standard library is not used
_LINK = ("-Wl,--as-needed",)


def compile_command(compiler: str, output: Path) -> tuple[str, ...]:
    """The command that compiles the launcher to the file `output`."""
    include = f"-I{sysconfig.get_path('include')}"
    return (compiler, *FLAGS, include, str(SOURCE), "-o", str(output), *_LINK)
