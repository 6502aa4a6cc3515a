"""How the launcher is compiled: at first use, and by `hatch_build.py` for wheels, which runs this file where nothing of ours is
installed. Imports only the standard library."""

from __future__ import annotations

import sysconfig
from pathlib import Path

SOURCE = Path(__file__).with_name("launcher.cpp")
INCLUDED = tuple(Path(__file__).with_name(f"{part}.h") for part in ("queued", "moved", "repeated"))
PREBUILT = Path(__file__).with_name("launcher.abi3.so")
"""The launcher in wheels for a platform; other wheels and checkouts have none."""
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
_LINK = ("-Wl,--as-needed",)  # the standard library is not used


def compile_command(compiler: str, output: Path) -> tuple[str, ...]:
    """The command that compiles the launcher into the file `output`."""
    include = f"-I{sysconfig.get_path('include')}"
    return (compiler, *FLAGS, include, str(SOURCE), "-o", str(output), *_LINK)
