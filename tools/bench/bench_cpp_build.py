"""Measures builds of C++ kernels: shared units against one library each, with and without a precompiled
header.

Usage: `python -m tools.bench.bench_cpp_build [--write] [kernels] [libraries]`. Prints tables; `--write` also
writes `docs/benchmarks/cpp_build.md`, expectation first. `libraries` are builds of one model for both runtimes.

The kernels are those that Inductor generates for a training step of a transformer layer. Inductor's own
compilation is not timed: its compiler is replaced by one that only collects sources.
"""

from __future__ import annotations

import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import torch
from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.cpu_vec_isa import pick_vec_isa

from cpp_wrapper import CppKernelRuntime, CppOptions
from cpp_wrapper.settings import Settings, read_settings
from tools.bench.library_build import library_builds
from tools.bench.pages import command_line, page, publish, section_of, table
from wrapper_ir import ir

EXPECTATION = """\
Expected from the times of single compiler runs: reading the headers takes some 1.5 s of processor time, a kernel a
tenth of that. So a library for each kernel takes several times as long as one for all; a precompiled header takes
most of the reading away but costs several times a reading to make, so it pays only after several programs."""

_KERNELS, _LIBRARIES = "Measured", "Libraries from empty caches"
ABOUT_LIBRARIES = """\
Seconds of `cpp_wrapper.build` of the GPT of four blocks of width 256 on 64 tokens, float32, with planned memory, in fresh processes with
empty caches and without prebuilt objects; capture is not among them. Sides alternate; seconds are the best round's, a ratio is the
median of the rounds."""

C_TYPES = {
    "float": ir.DType.F32,
    "int64_t": ir.DType.I64,
    "int32_t": ir.DType.I32,
    "bool": ir.DType.BOOL,
    "uint8_t": ir.DType.U8,
}


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds until all kernels are loaded; `runs` is the number of libraries."""

    way: str
    seconds: float
    runs: int


def collect() -> list[ir.CppKernel]:
    """Returns the kernels of a training step, by intercepting Inductor's compiler."""
    kernels: list[ir.CppKernel] = []
    isa = tuple(str(pick_vec_isa()).split())

    def record(self: AsyncCompile, types: Sequence[str], source: str, **_: object) -> Callable[..., None]:
        params = tuple(parse_param(i, text) for i, text in enumerate(types))
        name = f"kernel_{len(kernels)}"
        kernels.append(ir.CppKernel(name=name, params=params, source=source, entry="kernel", isa=isa))
        return lambda *args: None

    layer = torch.nn.Sequential(
        *(
            torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, activation="gelu", batch_first=True)
            for _ in range(2)
        ),
        torch.nn.Linear(64, 50),
    )
    x = torch.randn(2, 24, 64, requires_grad=True)
    with mock.patch.object(AsyncCompile, "cpp_pybinding", record), config.patch(fx_graph_cache=False):
        torch.compile(layer)(x).log_softmax(-1).square().mean().backward()
    return kernels


def parse_param(index: int, declared: str) -> ir.KernelParam:
    """A parameter from Inductor's list of C types."""
    match = re.fullmatch(r"(const )?(\w+)(\*?)", declared)
    assert match is not None, declared
    dtype = C_TYPES[match[2]]
    if not match[3]:
        return ir.KernelParam(name=f"p{index}", kind=ir.ParamKind.SCALAR, dtype=dtype)
    access = ir.Access.READ if match[1] else ir.Access.READWRITE
    return ir.KernelParam(name=f"p{index}", kind=ir.ParamKind.POINTER, dtype=dtype, access=access)


def _settings(folder: str) -> Settings:
    """Returns settings of the environment with a separate cache."""
    settings = read_settings()
    return replace(settings, cache=replace(settings.cache, folder=Path(folder)))


def timed(way: str, kernels: list[ir.CppKernel], header: bool, shared: bool) -> Row:
    """Times a build into an empty cache; launcher and header are built beforehand, without timing."""
    with tempfile.TemporaryDirectory() as folder:
        options = CppOptions(precompile_after=0 if header else None)
        runtime = CppKernelRuntime(options=options, settings=_settings(folder))
        warm = replace(kernels[0], name="warm", source=kernels[0].source + "\n// warm")
        runtime.load(warm, ir.Target())
        before = len(list(Path(folder).rglob("kernels.so")))
        start = time.perf_counter()
        if shared:
            runtime.load_all(kernels, ir.Target())
        else:
            with ThreadPoolExecutor(read_settings().jobs) as pool:
                list(pool.map(lambda kernel: runtime.load(kernel, ir.Target()), kernels))
        seconds = time.perf_counter() - start
        return Row(way, seconds, len(list(Path(folder).rglob("kernels.so"))) - before)


def header_seconds(kernels: list[ir.CppKernel]) -> float:
    """Measures the build time that the precompiled header adds."""
    costs = []
    for after in (None, 0):
        with tempfile.TemporaryDirectory() as folder:
            settings = _settings(folder)
            start = time.perf_counter()
            CppKernelRuntime(options=CppOptions(precompile_after=after), settings=settings).load(
                kernels[0], ir.Target()
            )
            costs.append(time.perf_counter() - start)
    return costs[1] - costs[0]


FOLLOWS = """\
- Kernels share units; a second unit is opened only when the kernels outweigh the headers. The cache still
  answers kernel by kernel: an entry names the library and the symbol.
- The header is precompiled after four builds with the same flags (`CppOptions.precompile_after`), when what
  it saves has become worth its cost."""


def kernel_text(kernels: list[ir.CppKernel], rows: list[Row], header: float) -> str:
    """The text of what was measured of kernels."""
    best = min(row.seconds for row in rows if "shared" in row.way and "header" not in row.way)
    size = sum(len(kernel.source) for kernel in kernels)
    about = (
        f"{len(kernels)} kernels of a training step of two transformer layers ({size:,} bytes of source), "
        f"torch {torch.__version__}, {platform.machine()}, {read_settings().jobs} compiler processes at once, empty cache."
    )
    times = table(
        ("way", "libraries", "seconds", "over shared units"),
        [(r.way, r.runs, f"{r.seconds:.1f}", f"{r.seconds / best:.2f}") for r in rows],
    )
    cost = f"Making the precompiled header adds {header:.1f} s, once for a cache, and takes about 150 MB."
    return f"{about}\n\n{times}\n\n{cost}"


def report(kernels: str, libraries: str) -> str:
    """The document."""
    return page(
        "Building C++ kernels",
        "python -m tools.bench.bench_cpp_build --write",
        ("Expectation", EXPECTATION),
        (_KERNELS, kernels),
        (_LIBRARIES, libraries),
        ("What follows", FOLLOWS),
    )


def main() -> int:
    """Runs the benchmark; exit status 1 where shared units aren't the fastest way without a header."""
    parser = command_line(__doc__)
    parser.add_argument("what", nargs="*", default=["kernels", "libraries"], help="kernels, libraries")
    options = parser.parse_args()
    name = options.page or "cpp_build"
    measured, is_right = section_of(name, _KERNELS), True
    if "kernels" in options.what:
        measured, is_right = kernel_builds()
    libraries = section_of(name, _LIBRARIES)
    if "libraries" in options.what:
        libraries = f"{ABOUT_LIBRARIES}\n\n{library_builds()}"
    publish("cpp_build", report(measured, libraries), options)
    return 0 if is_right else 1


def kernel_builds() -> tuple[str, bool]:
    """Measures kernels; returns the text, and whether shared units are the fastest way without a header."""
    kernels = collect()
    rows = [
        timed("shared units", kernels, header=False, shared=True),
        timed("shared units, precompiled header", kernels, header=True, shared=True),
        timed("one library each", kernels, header=False, shared=False),
        timed("one library each, precompiled header", kernels, header=True, shared=False),
    ]
    return kernel_text(kernels, rows, header_seconds(kernels)), rows[0].seconds <= rows[2].seconds


if __name__ == "__main__":
    sys.exit(main())
