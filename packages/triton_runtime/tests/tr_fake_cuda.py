"""A recording CUDA driver (`fake_cuda.c`), and kernels loaded onto it.

Its devices are the host: tensors are CPU tensors, and the whole path in C runs without a GPU.
"""

from __future__ import annotations

import ctypes
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from packages.triton_runtime.tests.triton_texts import bound

from triton_runtime import Binary, Launchable, bind, make_grid
from triton_runtime.compile.ahead import kernel_binary
from triton_runtime.cuda import CudaDriver, CudaOptions
from triton_runtime.settings import Settings
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel

_TRIPLE = ctypes.c_uint * 3


class Record(ctypes.Structure):
    """One launch as recorded by `fake_cuda.c`."""

    _fields_ = (
        ("grid", _TRIPLE),
        ("block", _TRIPLE),
        ("shared", ctypes.c_uint),
        ("attribute_count", ctypes.c_uint),
        ("stream", ctypes.c_uint64),
        ("function", ctypes.c_uint64),
        ("context", ctypes.c_uint64),
        ("ids", ctypes.c_int * 8),
        ("values", _TRIPLE * 8),
        ("param_count", ctypes.c_int),
        ("params", ctypes.c_uint64 * 64),
        ("extended", ctypes.c_int),
        ("maps", (ctypes.c_uint64 * 16) * 4),
        ("map_count", ctypes.c_int),
    )


class Function(ctypes.Structure):
    """The attributes of a loaded kernel."""

    _fields_ = (
        ("symbol", ctypes.c_char * 64),
        ("sizes", ctypes.c_int * 64),
        ("count", ctypes.c_int),
        ("registers", ctypes.c_int),
        ("local_bytes", ctypes.c_int),
        ("shared_static", ctypes.c_int),
        ("attributes", ctypes.c_int * 16),
        ("cache_config", ctypes.c_int),
        ("context", ctypes.c_void_p),
        ("unloaded", ctypes.c_int),
    )


@dataclass(frozen=True)
class Launched:
    """One launch, decoded."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    stream: int
    params: tuple[int, ...]
    """The bytes of each parameter as an unsigned number."""
    attributes: dict[int, tuple[int, ...]]
    extended: bool
    function: int
    context: int
    maps: tuple[tuple[int, ...], ...]
    """Words of the tensor maps among the parameters, as encoded by the fake driver."""


@dataclass
class FakeCuda:
    """The fake library, a cache folder, and their drivers."""

    path: Path
    settings: Settings
    library: Any = field(init=False)  # ctypes gives no types to a library's functions

    def __post_init__(self) -> None:
        self.library = ctypes.CDLL(str(self.path))
        self.library.fake_record.restype = ctypes.POINTER(Record)
        self.library.fake_kernel.restype = ctypes.POINTER(Function)
        self.library.fake_kernel.argtypes = (ctypes.c_uint64,)

    def driver(self, **options: Any) -> CudaDriver:  # Any: as CudaOptions
        return CudaDriver(options=CudaOptions(library=str(self.path), **options), settings=self.settings)

    def launches(self) -> list[Launched]:
        """Launches since the last call."""
        launches = [_launched(self.library.fake_record(i).contents) for i in range(self.library.fake_count())]
        self.library.fake_reset()
        return launches

    def fail(self, function: str, status: int, times: int = 1) -> None:
        """Makes the next calls of a driver function fail."""
        self.library.fake_fail(function.encode(), status, times)

    def function(self, launched: Launched) -> Function:
        """The attributes of a launch's kernel."""
        attributes: Function = self.library.fake_kernel(launched.function).contents
        return attributes


def _launched(r: Record) -> Launched:
    return Launched(
        grid=tuple(r.grid),
        block=tuple(r.block),
        shared=r.shared,
        stream=r.stream,
        params=tuple(r.params[: r.param_count]),
        attributes={r.ids[i]: tuple(r.values[i]) for i in range(r.attribute_count)},
        extended=bool(r.extended),
        function=r.function,
        context=r.context,
        maps=tuple(tuple(r.maps[i]) for i in range(r.map_count)),
    )


def build_fake(folder: Path, soname: str = "libfakecuda.so") -> Path:
    """Compiles `fake_cuda.c`; once loaded, it is found as `soname`."""
    output = folder / "libfakecuda.so"
    source = Path(__file__).with_name("fake_cuda.c")
    flags = ["-shared", f"-Wl,-soname,{soname}"]
    subprocess.run(["cc", "-O1", "-fPIC", *flags, str(source), "-o", str(output)], check=True)
    return output


def launchable(
    params: str,
    clauses: str,
    *,
    name_of: str = "f",
    maps: tuple[ir.TensorMap, ...] = (),
    assembly: str = "",
    **facts: Any,  # Any: as LaunchFacts
) -> Launchable:
    """A kernel of these parameters with an image for the fake driver; `facts` override its binary's."""
    kernel = bound(params, clauses)
    config = kernel.configs[0]
    defaults: dict[str, Any] = {"symbol": name_of, "num_warps": config.num_warps, "warp_size": 32}
    compiled = Binary(
        image=b"",
        assembly=assembly,
        target="cuda:sm_90",
        compiler="none",
        facts=ir.LaunchFacts(**(defaults | facts)),
        maps=maps,
    )
    one = Launchable(
        kernel=kernel, config=config, binding=bind(kernel, config), grid=make_grid(kernel, config)
    )
    binary = kernel_binary(one, "0" * 64, compiled)
    return replace(one, binary=replace(binary, image=fake_image(binary, name_of)))


def fake_image(binary: ir.KernelBinary, symbol: str) -> bytes:
    """An image for the fake driver in place of a compiled kernel's; it has one function, `symbol`."""
    sizes = ",".join(str(param.nbytes) for param in binary.params)
    return f"symbol={symbol} sizes={sizes} registers=20 local=4".encode()


def load(
    driver: CudaDriver, params: str, clauses: str, device: ir.Device = ir.CPU, **facts: Any
) -> LoadedKernel:  # Any: as `launchable`
    """`launchable`, loaded."""
    return driver.load(launchable(params, clauses, **facts), device)


def number(format_: str, value: float) -> int:
    """The bytes of a C number as an unsigned one."""
    return int.from_bytes(struct.pack(f"<{format_}", value), "little")


def clauses(order: Sequence[str], grid: str = "1", config: str = "") -> str:
    """The clauses of a kernel with one config of four warps."""
    return f"\n  order({', '.join(order)})\n  configs({{{config}}} warps(4) stages(1))\n  grid({grid})\n"


VECTOR = ("read f32* x, write f32* out, i32 n", clauses(["x", "out", "n", "B"], "ceildiv(n, B)", "B = 64"))
"""Parameters and clauses of a vector kernel."""
