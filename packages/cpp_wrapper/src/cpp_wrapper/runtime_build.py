"""Compiles the runtime, which is the same in every library.

It is compiled with the first library, or by `hatch_build.py` into wheels. That script runs this file before
any of our packages is installed, so it imports only the standard library.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

RUNTIME = (
    *("runtime.cpp", "dispatcher.cpp", "matmuls.cpp", "steps.cpp", "values.cpp", "checksum.cpp"),
    *("file.cpp", "container.cpp", "packing.cpp", "persistent.cpp", "convention.cpp", "group_memory.cpp"),
    *("interface.cpp", "python.cpp"),
)
"""Files of one translation unit: the compiler spends most of its time on headers of the standard library."""
NATIVE_RUNTIME = (
    *("runtime.cpp", "steps.cpp", "values.cpp", "checksum.cpp", "file.cpp", "container.cpp"),
    "packing.cpp",
    *("persistent.cpp", "convention.cpp", "numbers.cpp", "memory.cpp", "scratch.cpp", "services.cpp"),
    *("serial.cpp", "dlpack.cpp", "device_calls.cpp", "interface.cpp"),
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
PREBUILT = {
    "torch": Path(__file__).with_name("runtime.o"),
    "native": Path(__file__).with_name("native_runtime.o"),
}
"""The unit's object in platform wheels for each runtime, with the compiler's version beside it; pure wheels
and checkouts have none.
"""
_FILES = {"torch": RUNTIME, "native": NATIVE_RUNTIME}
_PACKAGE = Path(__file__).parent
_HEADERS = "wrapper_ir_native/src/wrapper_ir_native/include/wrapper_ir"
_SIBLING, _BUNDLED = _PACKAGE.parents[2] / _HEADERS, _PACKAGE.parents[1] / "native_headers"
_FOLDERS = {
    "torch": (_PACKAGE / "sources" / "text",),
    "native": (
        *(_PACKAGE / "sources" / "text", _PACKAGE / "native"),
        _SIBLING if _SIBLING.exists() else _BUNDLED,  # in a checkout, or in an sdist
    ),
}
"""Folders of each runtime's files; a later one replaces files of the same name."""
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


def compile_runtime(command: str, runtime: str, folder: Path) -> Path:
    """Compiles a runtime's unit into `folder`, with the compiler's version beside it, and returns the object.

    Raises CalledProcessError.
    """
    output = folder / PREBUILT[runtime].name
    sources = folder / runtime
    sources.mkdir()
    for texts in _FOLDERS[runtime]:
        for path in texts.iterdir():
            if path.is_file():
                shutil.copyfile(path, sources / path.name)
    (sources / UNIT).write_text(unit_text(_FILES[runtime]))
    subprocess.run([command, *FLAGS, "-c", str(sources / UNIT), "-o", str(output)], check=True)
    output.with_suffix(_VERSION).write_text(compiler_version(command))
    return output


def find_prebuilt(version: str, flags: Sequence[str], runtime: str = "torch") -> Path | None:
    """Returns the wheel's object if a compiler of this version can link it, None if it must be compiled.

    The compiler is g++ for the same machine, at least as new as the one that built the object: its standard
    library then has all symbols.
    """
    prebuilt = PREBUILT[runtime]
    if tuple(flags) != FLAGS or not prebuilt.exists():
        return None
    builder = prebuilt.with_suffix(_VERSION).read_text()
    (own, target), (other, other_target) = [(_GCC.search(t), _TARGET.search(t)) for t in (version, builder)]
    if own is None or other is None or target is None or other_target is None or target[1] != other_target[1]:
        return None
    return prebuilt if int(own[1]) >= int(other[1]) else None
