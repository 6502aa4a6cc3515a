"""Compiles the runtime, which is the same in every library.

It is compiled with the first library, or by `hatch_build.py` into wheels. That script runs this file before
any of our packages is installed, so it imports only the standard library.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

RUNTIME = (
    *("runtime.cpp", "dispatcher.cpp", "matmuls.cpp", "steps.cpp", "values.cpp", "checksum.cpp"),
    *("file.cpp", "container.cpp", "persistent.cpp", "convention.cpp", "group_memory.cpp"),
    *("interface.cpp", "python.cpp"),
)
"""Files of one translation unit: the compiler spends most of its time on headers of the standard library."""
NATIVE_RUNTIME = (
    *("runtime.cpp", "steps.cpp", "values.cpp", "checksum.cpp", "file.cpp", "container.cpp"),
    *("persistent.cpp", "convention.cpp", "numbers.cpp", "memory.cpp", "scratch.cpp", "services.cpp"),
    *("dlpack.cpp", "interface.cpp"),
)
"""Files of the native runtime's unit."""
UNIT = "library.cpp"
"""The file name of that unit."""
COMMON_FLAGS = (
    "-std=c++20",
    "-DNDEBUG",
    "-fPIC",
    "-fvisibility=hidden",
    "-w",
    "-ffunction-sections",
    "-fdata-sections",
    "-ffp-contract=off",  # the same bits as Python's, and as eager mode's
)
FLAGS = (*COMMON_FLAGS, "-O1", "-fopenmp")
PREBUILT = Path(__file__).with_name("runtime.o")
"""The unit's object in platform wheels, with the compiler's version beside it; pure wheels and checkouts
have none.
"""
_TEXTS = Path(__file__).parent / "sources" / "text"
_VERSION = ".txt"
_GCC = re.compile(r"\bgcc version (\d+)\.")
_TARGET = re.compile(r"\bTarget: (\S+)")


def unit_text(files: Sequence[str] = RUNTIME) -> str:
    """Returns the text of the unit."""
    return "".join(f'#include "{name}"\n' for name in files)


def compiler_version(command: str) -> str:
    """Returns the version and target machine that a compiler prints. Raises CalledProcessError."""
    process = subprocess.run([command, "-v"], capture_output=True, text=True, check=True)
    facts = [
        line for line in process.stderr.splitlines() if line.startswith("Target:") or " version " in line
    ]
    return " | ".join(facts)


def compile_runtime(command: str, output: Path) -> None:
    """Compiles the unit into `output`, with the compiler's version beside it. Raises CalledProcessError."""
    source = output.with_name(UNIT)
    source.write_text(unit_text())
    words = [command, *FLAGS, f"-I{_TEXTS}", "-c", str(source), "-o", str(output)]
    subprocess.run(words, check=True)
    output.with_suffix(_VERSION).write_text(compiler_version(command))


def find_prebuilt(version: str, flags: Sequence[str]) -> Path | None:
    """Returns the wheel's object if a compiler of this version can link it, None if it must be compiled.

    The compiler is g++ for the same machine, at least as new as the one that built the object: its standard
    library then has all symbols.
    """
    if tuple(flags) != FLAGS or not PREBUILT.exists():
        return None
    builder = PREBUILT.with_suffix(_VERSION).read_text()
    (own, target), (other, other_target) = [(_GCC.search(t), _TARGET.search(t)) for t in (version, builder)]
    if own is None or other is None or target is None or other_target is None or target[1] != other_target[1]:
        return None
    return PREBUILT if int(own[1]) >= int(other[1]) else None
