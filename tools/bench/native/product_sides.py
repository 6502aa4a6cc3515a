"""Sides of bench_native_products that are called from C: our kernels, and libraries of the system."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import cpp_wrapper

_FLAGS = {
    "DEFAULT": (),
    "AVX2": ("-mavx2", "-mfma", "-mf16c"),
    "AVX512": ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma", "-mf16c"),
}
_WORK = 2e7
"""Multiplications of a measured call from C: shorter products are repeated."""


@dataclass(frozen=True, slots=True)
class Case:
    """A product: rows, depth and columns, and its operands."""

    rows: Tensor
    weights: Tensor
    bias: Tensor

    @property
    def size(self) -> tuple[int, int, int]:
        """(m, k, n)."""
        return self.rows.size(0), self.rows.size(1), self.weights.size(1)


Run = Callable[[], int]
"""Computes a product some times; returns how often."""
Side = Callable[[Case], Run]


def make_case(m: int, k: int, n: int) -> Case:
    """Random operands; rows are aligned as the runtime's tensors."""
    return Case(_aligned(m, k).normal_(), torch.randn(k, n), torch.randn(n))


def _aligned(*sizes: int) -> Tensor:
    count = math.prod(sizes)
    memory = torch.empty(count + 16)
    start = -memory.data_ptr() // 4 % 16
    return memory[start : start + count].view(*sizes)


def _address(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


@dataclass(frozen=True, slots=True)
class Driver:
    """A library that a C++ file of this folder calls: its header, arguments of the linker, Debian's package."""

    name: str
    header: str
    link: tuple[str, ...]
    package: str

    @property
    def source(self) -> Path:
        """The C++ file."""
        return Path(__file__).parent / f"products_{self.name.lower()}.cpp"


DRIVERS = (
    Driver("libxsmm", "libxsmm.h", ("-lxsmm", "-lxsmmnoblas", "-ldl", "-lm"), "libxsmm-dev"),
    Driver("Eigen", "Eigen/Core", (), "libeigen3-dev"),
    Driver("XNNPACK", "xnnpack.h", ("-lXNNPACK",), "libxnnpack-dev"),
)


def _flags(folder: Path) -> list[str]:
    flags = ["-std=c++20", "-O2", "-fPIC", "-fno-math-errno", "-ffp-contract=off", "-fopenmp", f"-I{folder}"]
    for system in ("/usr/include/eigen3", *os.environ.get("CPLUS_INCLUDE_PATH", "").split(":")):
        flags += (f"-I{system}",) if (Path(system) / "Eigen").is_dir() else ()
    return [*flags, *_FLAGS.get(torch.backends.cpu.get_cpu_capability(), ())]


def _compile(folder: Path, name: str, units: list[Path], link: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Compiles units to a stripped library, and prints its size."""
    objects = []
    for unit in units:
        objects.append(str(folder / f"{unit.stem}.o"))
        subprocess.run(["g++", *_flags(folder), "-c", str(unit), "-o", objects[-1]], check=True)
    target = folder / f"{name}.so"
    subprocess.run(["g++", "-shared", "-s", "-fopenmp", "-o", str(target), *objects, *link], check=True)
    print(f"Bytes with driver: {target.stat().st_size:,} {name}")
    return ctypes.CDLL(str(target))


def build(folder: Path) -> ctypes.CDLL:
    """Compiles our kernels with `products.cpp`, for this machine's instruction set."""
    package = Path(cpp_wrapper.__file__).parent
    for source in ("sources/text", "native"):  # files of the native runtime replace those of torch's
        for path in (package / source).rglob("*.*"):
            (folder / path.name).write_bytes(path.read_bytes())
    driver = Path(__file__).parent / "products.cpp"
    units = [folder / "products_driver.cpp", folder / "panels.cpp", folder / "packers.cpp"]
    units[0].write_bytes(driver.read_bytes())  # `products.cpp` is also a file of the runtime
    return _compile(folder, "ours", units, ("-Wl,-z,undefs",))


def driver_sides(folder: Path) -> dict[str, Side]:
    """Sides of libraries that C++ files call, if they are installed."""
    found: dict[str, Side] = {}
    for driver in DRIVERS:
        probe = ["g++", *_flags(folder), "-fsyntax-only", "-include", driver.header, "-x", "c++", "/dev/null"]
        if subprocess.run(probe, capture_output=True, check=False).returncode:
            print(f"{driver.name} is skipped: {driver.package} is not installed")
            continue
        library = _compile(folder, driver.name, [driver.source], driver.link)
        found[driver.name] = (
            _xnnpack_side(library) if driver.name == "XNNPACK" else _rows_side(library, driver)
        )
    return found


def _rows_side(library: ctypes.CDLL, driver: Driver) -> Side:
    function = getattr(library, f"run_{driver.name.lower()}")  # by the table
    return lambda case: _repeated(function, case, case.weights)


def _xnnpack_side(library: ctypes.CDLL) -> Side:
    library.open_xnnpack.restype = ctypes.c_void_p

    def side(case: Case) -> Run:
        _, k, n = case.size
        sizes = ctypes.c_int64(k), ctypes.c_int64(n)
        packed = library.open_xnnpack(*sizes, _address(case.weights), _address(case.bias))
        assert packed, "XNNPACK has no operator"
        return _repeated(library.run_xnnpack, case, ctypes.c_void_p(packed))

    return side


def _repeated(function: Any, case: Case, weights: Tensor | ctypes.c_void_p) -> Run:  # Any: a C function
    m, k, n = case.size
    times = max(1, int(_WORK / (m * k * n)))
    result = torch.empty(m, n)
    numbers = [ctypes.c_int64(number) for number in (times, m, n, k)]

    def run() -> int:
        read = _address(weights) if isinstance(weights, Tensor) else weights
        function(*numbers, _address(case.rows), read, _address(case.bias), _address(result))
        return times

    return run


def native_sides(library: ctypes.CDLL) -> dict[str, Side]:
    """Ours, packed and not."""

    def packed(case: Case) -> Run:
        _, k, n = case.size
        panels = _aligned(-(-n // 16) * 16 * k)
        library.pack_weights(_address(case.weights), ctypes.c_int64(k), ctypes.c_int64(n), _address(panels))
        return _repeated(library.run_packed, case, panels)

    return {"ours": packed, "ours, rows": lambda case: _repeated(library.run_rows, case, case.weights)}


def blas_sides() -> dict[str, Side]:
    """OpenBLAS and BLIS of the system, if they are installed."""
    found: dict[str, Side] = {}
    for name, file in (("OpenBLAS", "libopenblas.so.0"), ("BLIS", "libblis.so.4")):
        try:
            library = ctypes.CDLL(file)
        except OSError:
            print(f"{name} is skipped: lib{name.lower()}-dev is not installed")
            continue
        if name == "OpenBLAS":
            library.openblas_set_num_threads(1)
        found[name] = _blas_side(library)
    return found


def _blas_side(library: ctypes.CDLL) -> Side:
    """A library with the C interface of BLAS."""

    def side(case: Case) -> Run:
        m, k, n = case.size
        result = torch.empty(m, n)
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        m_, n_, k_ = (ctypes.c_int(size) for size in (m, n, k))

        def run() -> int:
            library.cblas_sgemm(
                101, 111, 111, m_, n_, k_, one, _address(case.rows), k_, _address(case.weights), n_, zero,
                _address(result), n_,
            )  # fmt: skip
            return 1

        return run

    return side


def library_sizes() -> str:
    """Bytes of the files that contain the other kernels, with all else that is in them."""
    files = [Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"]
    for folder, pattern in (
        *(
            (path, pattern)
            for path in sys.path
            for pattern in ("onnxruntime/capi/*state*.so", "openvino/libs/*intel_cpu*.so")
        ),
        ("/usr/lib", "*/openblas-*/libopenblasp*.so"),
        *(
            (path, pattern)
            for path in ("/usr/lib/x86_64-linux-gnu", *os.environ.get("LD_LIBRARY_PATH", "").split(":"))
            for pattern in (
                "libblis.so.4",
                "blis-*/libblis.so.4",
                "libXNNPACK.so.0",
                "libpthreadpool.so.0",
                "libcpuinfo.so.0",
            )
        ),
    ):
        files += sorted(Path(folder).glob(pattern))
    return ", ".join(f"{file.stat().st_size:,} {file.name}" for file in files)
