"""How the runtime, the same in every library, is compiled: with the first library, and by `hatch_build.py` for wheels, which runs this
file where nothing of ours is installed. Imports only the standard library."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

RUNTIME = (
    *("runtime.cpp", "dispatcher.cpp", "matmuls.cpp", "steps.cpp", "values.cpp", "file.cpp"),
    *("container.cpp", "persistent.cpp", "interface.cpp", "python.cpp"),
)
"""One unit: most of a compiler's time goes to the standard library's headers."""
UNIT = "library.cpp"
"""The name of that unit."""
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
"""The unit's object in wheels for a platform, with the compiler's version beside it; other wheels and checkouts have none."""
_TEXTS = Path(__file__).parent / "sources" / "text"
_VERSION = ".txt"
_GCC = re.compile(r"\bgcc version (\d+)\.")
_TARGET = re.compile(r"\bTarget: (\S+)")


def unit_text() -> str:
    """The text of the unit."""
    return "".join(f'#include "{name}"\n' for name in RUNTIME)


def compiler_version(command: str) -> str:
    """What a compiler says about itself: version and target machine. Raises CalledProcessError."""
    asked = subprocess.run([command, "-v"], capture_output=True, text=True, check=True)
    facts = [line for line in asked.stderr.splitlines() if line.startswith("Target:") or " version " in line]
    return " | ".join(facts)


def compile_runtime(command: str, output: Path) -> None:
    """Compiles the unit into `output`, with the compiler's version beside it. Raises CalledProcessError."""
    source = output.with_name(UNIT)
    source.write_text(unit_text())
    words = [command, *FLAGS, f"-I{_TEXTS}", "-c", str(source), "-o", str(output)]
    subprocess.run(words, check=True)
    output.with_suffix(_VERSION).write_text(compiler_version(command))


def find_prebuilt(version: str, flags: Sequence[str]) -> Path | None:
    """The object that the wheel brought, where a compiler of this version links it: g++ for the same machine, as old as the one that
    made it or newer, whose library has all that the object needs. None: it is to be compiled."""
    if tuple(flags) != FLAGS or not PREBUILT.exists():
        return None
    made = PREBUILT.with_suffix(_VERSION).read_text()
    found = [(_GCC.search(text), _TARGET.search(text)) for text in (version, made)]
    (own, target), (other, wanted) = found
    if own is None or other is None or target is None or wanted is None or target[1] != wanted[1]:
        return None
    return PREBUILT if int(own[1]) >= int(other[1]) else None
