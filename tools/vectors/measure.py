"""Errors and speed of the native runtime's vector functions: `python -m tools.vectors.measure`.

Prints a table in Markdown. Errors are in units in the last place, against long double; times are process CPU
times of an element, alternating with those of torch's Sleef, which `libtorch_cpu` exports.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cpp_wrapper import CppOptions
from cpp_wrapper.kernels.isa import ISAS, isa_build_args
from cpp_wrapper.kernels.toolchain import find_toolchain, operator_recipe

VECTORS = Path(__file__).parents[2] / "packages/cpp_wrapper/src/cpp_wrapper/native/vectors"
GENERIC = "generic"
LANES = {"avx512": ("f16", "d8"), "avx2": ("f8", "d4")}
"""Levels with exported functions: their suffixes for float and double."""
BOUNDS = {
    "erfc": 1.5, "sin_fast": 3.5, "cos_fast": 3.5, "hypot": 0.501, "sigmoid": 3.0, "fmod": 0.0, "nextafter": 0.0,
    "copysign": 0.0,
}  # fmt: skip
"""Promised errors; those of other functions are 1.0, or 2.0 without fused multiplication."""
_ONE = (
    "exp exp2 expm1 sigmoid log log2 log10 log1p sin cos sin_fast cos_fast tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh erf erfc lgamma"
)
NAMES = (*_ONE.split(), "pow", "atan2", "hypot", "fmod", "nextafter", "copysign")
"""Functions of `vector_math.h` and `vector_double.h`."""
_SUFFIXES = {
    "erfc": "_u15", "hypot": "_u05", "fmod": "", "nextafter": "", "copysign": "", "sin_fast": "_u35", "cos_fast": "_u35"
}  # fmt: skip
_RANGES = {
    **dict.fromkeys(("asin", "acos", "atanh"), (-0.95, 0.95)),
    **dict.fromkeys(("log", "log2", "log10", "log1p", "acosh", "pow", "lgamma"), (1.0, 50.0)),
}


def sleef_name(name: str, lanes: str) -> str:
    """Returns the name by which torch's headers call a function."""
    return f"Sleef_{name.removesuffix('_fast')}{lanes}{_SUFFIXES.get(name, '_u10')}"


def bound_of(name: str, level: str) -> float:
    """Returns the largest error that a function may have."""
    return BOUNDS.get(name, 2.0 if level == GENERIC else 1.0)


@dataclass(frozen=True, slots=True)
class Worst:
    """The largest error, with the arguments and the result."""

    error: float
    at: tuple[float, float, float]


class Driver:
    """The functions of one level, compiled with the flags of libraries."""

    def __init__(self, level: str, folder: Path) -> None:
        flags = () if level == GENERIC else isa_build_args("", [level])
        recipe = operator_recipe(find_toolchain("g++"), flags, CppOptions())
        output = folder / f"{level}.so"
        source = Path(__file__).with_name("driver.cpp")
        command = (
            recipe.toolchain.command,
            *recipe.flags,
            f"-I{VECTORS}",
            "-shared",
            str(source),
            "-o",
            str(output),
        )
        subprocess.run(command, check=True)
        self.level = level
        self._library = ctypes.CDLL(str(output))
        self._library.wir_find.restype = ctypes.c_void_p
        self._library.wir_worst.restype = ctypes.c_double
        self._library.wir_seconds.restype = ctypes.c_double

    def find(self, name: str, is_double: bool) -> int | None:
        """Returns the address of a function, None if this level lacks it."""
        address: int | None = self._library.wir_find(name.encode(), int(is_double))
        return address

    def worst(self, address: int, name: str, is_double: bool, count: int, seed: int = 0) -> Worst:
        """Returns the largest error for special and `count` random arguments."""
        at = (ctypes.c_double * 3)()
        error = self._library.wir_worst(
            ctypes.c_void_p(address),
            name.encode(),
            int(is_double),
            ctypes.c_uint64(seed),
            ctypes.c_int64(count),
            at,
        )
        return Worst(error, (at[0], at[1], at[2]))

    def seconds(self, address: int, name: str, is_double: bool, repetitions: int) -> float:
        """Returns the smallest time of an element."""
        low, high = _RANGES.get(name, (-8.0, 8.0))
        time: float = self._library.wir_seconds(
            ctypes.c_void_p(address), name.encode(), int(is_double), ctypes.c_double(low), ctypes.c_double(high),
            ctypes.c_int64(repetitions),
        )  # fmt: skip
        return time


def host_levels() -> tuple[str, ...]:
    """Returns the levels that this machine runs; the generic one always."""
    features = Path("/proc/cpuinfo").read_text().partition("\nflags")[2].partition("\n")[0].split()
    return (*(level for level in LANES if ISAS[level].needs <= set(features)), GENERIC)


def _sleef() -> ctypes.CDLL:
    import torch

    return ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))


def _row(driver: Driver, name: str, sleef: ctypes.CDLL, count: int) -> str:
    cells = [f"`{name}`"]
    for is_double in (False, True):
        address = driver.find(name, is_double)
        if address is None:
            cells += ["", "", ""]
            continue
        worst = driver.worst(address, name, is_double, count)
        symbol = sleef_name(name, LANES[driver.level][is_double])
        times = ["", ""]
        if hasattr(sleef, symbol):
            other = ctypes.cast(getattr(sleef, symbol), ctypes.c_void_p).value or 0
            pairs = [
                (driver.seconds(address, name, is_double, 20), driver.seconds(other, name, is_double, 20))
                for _ in range(5)
            ]
            own, theirs = min(one for one, _ in pairs), min(one for _, one in pairs)
            times = [f"{own * 1e9:.2f}", f"{own / theirs:.2f}"]
        cells += [f"{worst.error:.3f}", *times]
    return f"| {' | '.join(cells)} |"


def main(argv: list[str] | None = None) -> int:
    """Prints the table of a level."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--level", default=host_levels()[0], choices=[one for one in host_levels() if one in LANES]
    )
    parser.add_argument("--count", type=int, default=4_000_000, help="random arguments of a function")
    arguments = parser.parse_args(argv)
    sleef = _sleef()
    print("| function | float: error | ns | of Sleef's | double: error | ns | of Sleef's |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(arguments.level, Path(folder))
        for name in NAMES:
            print(_row(driver, name, sleef, arguments.count), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
