"""Programs for CUDA devices on fakes: a CUDA driver that records its calls, and torch's C functions over the
CPU.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from packages.triton_runtime.tests.tr_fake_cuda import FakeCuda, build_fake, fake_image
from packages.triton_runtime.tests.triton_texts import HEAD
from torch import Tensor

import cpp_wrapper
from cpp_wrapper._compat import torch_library_dir
from cpp_wrapper.library import build
from cpp_wrapper.library import load as loading
from cpp_wrapper.library.build import needed_libraries
from cpp_wrapper.library.python import LoadedProgram
from cpp_wrapper.sources.program import Sources
from py_wrapper import TORCH_MACHINE
from tests.cpp.cpp_case import FAST, KERNELS
from triton_runtime import Binary
from triton_runtime.compile.ahead import kernel_binary
from triton_runtime.runtime import TritonRuntime
from triton_runtime.settings import read_settings
from wrapper_ir import ir, parse_program, verify
from wrapper_ir.artifact import Artifact, bare_artifact

ADD_KERNEL = (
    'kernel triton @add entry "add" (read f32* x divisible(16), read f32* y, write f32* out, f32 factor, i32 n)\n'
    "  order(x, y, out, factor, n, BLOCK)\n  configs({BLOCK = 64} warps(4) stages(1))\n  grid(ceildiv(n, BLOCK))\n"
    f"  {{{{{{\n{HEAD}\n@triton.jit\ndef add(x, y, out, factor, n, BLOCK: tl.constexpr):\n    pass\n}}}}}}\n"
)
"""out = x + factor * y over n elements."""
MIXED = (
    "symbol s0 : int backed [2, 1024] hint 8\nsymbol u0 : int unbacked [0, 100]\n"
    + ADD_KERNEL
    + KERNELS
    + """
const %w : f32[1024]
const %none : f32[0, 4]

func @main(%x: f32[s0], %i: i64[], %h: f32[4] @cpu) {
  define s0 = size(%x, 0)
  %y = alloc f32[s0]
  launch @add(%x, %w, %y, 0.5, s0)
  %d = alloc f32[4] @cpu
  launch @double(%h, %d, 4)
  %z = alloc f32[4]
  copy %z, %d non_blocking
  free %d.s
  define u0 = item(%i)
  return %y, %z, %none, 2*u0
}
"""
)


TOUCHY = (
    ADD_KERNEL
    + """
func @main(%x: f32[65], %n: int) {
  define u0 = item(%n)
  %y = alloc f32[64]
  launch @add(%x, %x, %y, 1.0, u0)
  return %y
}
"""
)


KEPT = (
    ADD_KERNEL
    + """
func @main(%x: f32[1024]) {
  %a = alloc f32[1024]
  launch @add(%x, %x, %a, 1.0, 1024)
  %b = alloc f32[1024]
  launch @add(%a, %x, %b, 1.0, 1024)
  free %a.s
  return %b
}
"""
)


DESCRIBED = (
    'kernel triton @tile entry "tile" (read f32[] a block(64, 32), write f32* out, i32 n)\n'
    "  order(a, out, n)\n  configs({} warps(4) stages(1))\n  grid(ceildiv(n, 64))\n"
    f"  {{{{{{\n{HEAD}\n@triton.jit\ndef tile(a, out, n):\n    pass\n}}}}}}\n"
    + """
func @main(%x: f32[100, 400]) {
  %part = view %x + 160 : f32[100, 200]{400, 1}
  %y = alloc f32[100]
  launch @tile(%part, %y, 100)
  return %y
}
"""
)


DOUBLED = """
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
const %w : f32[3, 3]

func @main(%x: i64[2, 3]) {
  %a = alloc f32[2, 3]
  copy %a, %x
  %y = alloc f32[2, 3]
  call aten::mm.out(%a, %w, out=%y)
  free %a.s
  return %y
}
"""
CHOSEN = (
    "symbol s0 : int backed [1, 100000] hint 8\n"
    + ADD_KERNEL
    + ADD_KERNEL.replace("@add", "@add_large").replace("BLOCK = 64", "BLOCK = 1024")
    + """
kernel multi @either choose size_hints (read f32* x divisible(16), read f32* y, write f32* out, f32 factor, i32 n)
  variants(
    @add(0, 1, 2, 3, 4) hints((16), (16), (16)),
    @add_large(0, 1, 2, 3, 4) hints((4096), (4096), (4096)),
  )

func @main(%x: f32[s0]) {
  define s0 = size(%x, 0)
  %y = alloc f32[s0]
  launch @either(%x, %x, %y, 1.0, s0)
  return %y
}
"""
)
CHOSEN_OPERATOR = (
    "symbol s0 : int backed [1, 100000] hint 8\n"
    + ADD_KERNEL
    + """
kernel operator @library "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)" (read f32* self, read f32* mat2, write f32* out)
kernel multi @either choose size_hints (read f32* x divisible(16), read f32* y, write f32* out, f32 factor, i32 n)
  variants(
    @add(0, 1, 2, 3, 4) hints((4, 4), (4, 4), (4, 4)),
    @library(0, 1, 2) hints((64, 64), (64, 64), (64, 64)),
  )

func @main(%x: f32[s0, s0]) {
  define s0 = size(%x, 0)
  %y = alloc f32[s0, s0]
  launch @either(%x, %x, %y, 1.0, s0)
  return %y
}
"""
)
GRAPH_PASSES = "cuda-graphs{own_memory=true},plan-memory"
SIZES = "symbol s0 : int backed [1, 1024] hint 8\n"
SUMS = (
    SIZES
    + ADD_KERNEL
    + """
func @main(%x: f32[s0], %w: static f32[s0]) {
  define s0 = size(%x, 0)
  %a = alloc f32[s0]
  launch @add(%x, %w, %a, 1.0, s0)
  %b = alloc f32[s0]
  launch @add(%a, %w, %b, 0.5, s0)
  free %a.s
  return %b
}
"""
)
"""x + 1.5 w."""
MATMULS = """
extern "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
extern "aten::bmm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
extern "aten::baddbmm.out(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
const %w : f32[6, 4]
const %bias : f32[6]
const %batches : f32[2, 6, 6]

func @main(%x: f32[2, 5, 4]) {
  %rows = view %x : f32[10, 4]
  %wt = view %w : f32[4, 6]{1, 4}
  %row = view %bias : f32[10, 6]{0, 1}
  %a = alloc f32[10, 6]
  call aten::addmm.out(%row, %rows, %wt, out=%a)
  %b = alloc f32[10, 4]
  call aten::mm.out(%a, %w, out=%b)
  %ab = view %a : f32[2, 5, 6]
  %c = alloc f32[2, 5, 6]
  call aten::bmm.out(%ab, %batches, out=%c)
  %d = alloc f32[2, 5, 6]
  call aten::baddbmm.out(%c, %ab, %batches, beta=0.5, alpha=2, out=%d)
  free %a.s
  return %b, %c, %d
}
"""
"""Matmuls of all kinds, with constants."""
_HOST = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint), ctypes.POINTER(ctypes.c_void_p))


def artifact_for_gpu(
    text: str,
    constants: Mapping[str, Tensor] | None = None,
    archs: tuple[str, ...] = ("sm_90",),
    facts: ir.LaunchFacts | None = None,
    maps: tuple[ir.TensorMap, ...] = (),
) -> Artifact:
    """The artifact of a program for `cuda:0`.

    Its kernels carry code for the fake driver, with these facts of a launch.
    """
    program = parse_program(f'wir 0.5\ntarget cuda:0 arch "{archs[-1]}"\n{text}')
    verify(program)
    binaries = []
    for kernel in program.kernels:
        if not isinstance(kernel, ir.TritonKernel):
            continue
        for arch in archs:
            known = facts or ir.LaunchFacts(symbol=kernel.entry, num_warps=4, warp_size=32)
            one = TritonRuntime().launchable(kernel)
            binary = Binary(
                image=b"", assembly="", target=f"cuda:{arch}", compiler="none", facts=known, maps=maps
            )
            made = kernel_binary(one, "0" * 64, binary)
            image = fake_image(made, known.symbol) + f" {arch}\0".encode()
            binaries.append(replace(made, image=image))
    data = {name: TORCH_MACHINE.data(tensor) for name, tensor in (constants or {}).items()}
    return replace(bare_artifact(program, data), binaries=tuple(binaries))


_Run = Callable[[tuple[int, ...], "ctypes.Array[ctypes.c_void_p]"], None]


def _host_function(run: _Run) -> object:
    """Returns a function of the host for launches of a kernel."""

    def call(grid: object, params: object) -> None:
        run(tuple(grid[:3]), params)  # type: ignore[index,arg-type]  # pointers of ctypes

    return _HOST(call)


@dataclass
class FakeGpu:
    """The fakes of this process."""

    cuda: FakeCuda
    torch: ctypes.CDLL
    matmuls: ctypes.CDLL
    """cuBLAS."""
    folder: Path
    kept: list[object] = field(default_factory=list)

    def load(self, artifact: Artifact, path: Path, device: int | None = None) -> LoadedProgram:
        """A library of the artifact, built and loaded; its inputs are tensors of the CPU."""
        return cpp_wrapper.load(cpp_wrapper.build(artifact, path, FAST), device)

    def run_on_host(self, symbol: str, run: _Run) -> None:
        """Launches of a kernel call `run(grid, addresses of parameters)`."""

        self.kept.append(made := _host_function(run))
        self.cuda.library.fake_host(symbol.encode(), made)

    def log(self) -> list[str]:
        """Returns operations on streams and events since the last call, with addresses by number."""
        return _lines(self.cuda.library)

    def torch_log(self) -> list[str]:
        """Returns changes of torch's current device and stream since the last call."""
        return _lines(self.torch)


def run_by_handles(
    library: ctypes.CDLL, container: ctypes.c_void_p, inputs: Sequence[Tensor], outputs: int, stream: int
) -> list[Tensor]:
    """A call through AOTInductor's own interface."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    capsules = [torch._C._aoti.unsafe_alloc_void_ptr_from_tensor(x) for x in inputs]
    given = (ctypes.c_void_p * len(inputs))(*(pointer(c, None) for c in capsules))
    made = (ctypes.c_void_p * outputs)()
    handle = ctypes.c_void_p(stream)
    run = library.AOTInductorModelContainerRun
    counts = [ctypes.c_size_t(n) for n in (len(inputs), outputs)]
    assert run(container, given, counts[0], made, counts[1], handle, None) == 0
    wrap = ctypes.pythonapi.PyCapsule_New
    wrap.restype, wrap.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return [torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr(wrap(m, None, None)) for m in made]


def _lines(library: ctypes.CDLL) -> list[str]:
    library.fake_log.restype = ctypes.c_char_p
    text: bytes = library.fake_log()
    library.fake_forget()
    return text.decode().splitlines()


def _add(grid: tuple[int, ...], params: ctypes.Array[ctypes.c_void_p]) -> None:
    x, y, out = (ctypes.cast(params[i] or 0, ctypes.POINTER(ctypes.c_void_p))[0] for i in range(3))
    factor = ctypes.cast(params[3] or 0, ctypes.POINTER(ctypes.c_float))[0]
    n = ctypes.cast(params[4] or 0, ctypes.POINTER(ctypes.c_int32))[0]
    assert grid in ((-(-n // 64), 1, 1), (-(-n // 1024), 1, 1))
    a, b, c = (
        torch.frombuffer((ctypes.c_float * n).from_address(p or 0), dtype=torch.float32) for p in (x, y, out)
    )
    c.copy_(a + factor * b)


def compile_library(source: Path, output: Path, *flags: str) -> None:
    """Compiles a file of C++ to a shared library."""
    subprocess.run(
        ["c++", "-std=c++20", "-shared", "-fPIC", "-O1", str(source), "-o", str(output), *flags], check=True
    )


_FAKE = "fake_torch_cuda"


@dataclass(frozen=True)
class FakeDrivers:
    """The fake driver, and the fake cuBLASLt. Libraries find them by the names of the real ones."""

    cuda: FakeCuda
    matmuls: ctypes.CDLL
    folder: TemporaryDirectory[str]
    kept: tuple[object, ...]


@cache
def load_drivers() -> FakeDrivers:
    """Builds and loads them, once in a process: a second driver of the same name would not be found."""
    kept = TemporaryDirectory()
    folder = Path(kept.name)
    cuda = FakeCuda(build_fake(folder, "libcuda.so.1"), read_settings())
    output = folder / "libfakecublaslt.so"
    compile_library(Path(__file__).with_name("fake_cublaslt.cpp"), output, "-Wl,-soname,libcublasLt.so.13")
    matmuls = ctypes.CDLL(str(output))
    matmuls.fake_workspace.restype = ctypes.c_uint64
    add = _host_function(_add)
    cuda.library.fake_host(b"add", add)
    return FakeDrivers(cuda, matmuls, kept, (add,))


def load_fakes(folder: Path) -> FakeGpu:
    """Loads the drivers, and builds and loads torch's functions for them.

    A torch built for CUDA has loaded its own CUDA library, so the fake has a different name, and libraries are
    linked to it.
    """
    drivers = load_drivers()
    source, path = Path(__file__).with_name("fake_torch_cuda.cpp"), folder / f"lib{_FAKE}.so"
    libraries = torch_library_dir()
    compile_library(
        source,
        path,
        *(f"-Wl,-soname,lib{_FAKE}.so", f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-ltorch_cpu"),
    )
    return FakeGpu(drivers.cuda, ctypes.CDLL(str(path)), drivers.matmuls, folder)


def use_fakes(patch: pytest.MonkeyPatch) -> None:
    """Programs for CUDA devices are linked to the fakes, and take tensors of the CPU."""
    on_device = loading._on_device

    def on_host(facts: Mapping[str, Any], index: int | None) -> Mapping[str, Any]:
        found = dict(on_device(facts, index or 0))
        inputs = [dict(one, device="cpu") if "device" in one else one for one in found["inputs"]]
        return {**found, "inputs": inputs}

    def needed(sources: Sources) -> tuple[str, ...]:
        return tuple(_FAKE if name == "torch_cuda" else name for name in needed_libraries(sources))

    patch.setattr(loading, "_on_device", on_host)
    patch.setattr(build, "needed_libraries", needed)
