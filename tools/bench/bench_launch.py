"""What it costs to launch a Triton kernel from Python, against the CUDA driver itself and the launchers of others, in one
run on one GPU.

Usage: `python -m tools.bench.bench_launch [--write]`. Prints a table; `--write` also writes
`docs/benchmarks/launch.md`, prediction first. Exit status 1 where a goal is missed.

All sides launch small pointwise kernels with as many arguments: ours, a bare `cuLaunchKernel` through ctypes and a loop of
launches in C the very same binary; `triton.jit` the same source; Inductor's launcher the kernel that Inductor makes of the
same sum. A round is a burst that fits into the device's queue, timed until the last launch returns; then the device
finishes, untimed. Rounds of all sides alternate. A ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton

from tools.bench.timing import write_report
from triton_runtime import Binary, TritonOptions, TritonRuntime
from triton_runtime.cuda import CudaDriver, CudaOptions, Step, make_sequence
from wrapper_ir import parse_program
from wrapper_ir.kernels import TritonKernel
from wrapper_ir.program import Target
from wrapper_ir.types import Device

PREDICTION = """\
Written before the first measurement. On a machine without a GPU, against a driver's library that only writes the launch
down, one of our launches takes 150, 240 and 450 ns with 3, 8 and 19 arguments, of which about 100 ns are that library,
the interpreter's call and the lock of the interpreter, given back and taken again. The driver's own launch takes about
1.5 to 2.5 us. A bare launch through ctypes converts eleven arguments, about 1 us, and with the driver took 3.6 us on an
H200. So ours costs about 0.6 to 0.9 of it, 1.1 to 1.3 of a launch in the loop in C, about 0.25 of `triton.jit` (10.3 us),
and about 0.4 of Inductor's launcher, which computes grid and arguments in Python. A sequence of 16 launches in one call
saves about 50 ns a launch; not checking arguments saves 10 to 90 ns, not worth a switch that people must think about."""

ARGUMENTS = (3, 8, 19)
GOALS = {"ctypes": 1.3, "triton.jit": 0.35, "Inductor": 0.5}
ROUNDS = 60
BURST = 192
SEQUENCE = 16
ELEMENTS = 1024

C_LOOP = """
typedef int (*Launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
int launch_many(Launch launch, void* function, unsigned grid, unsigned block, unsigned shared, void* stream, void** params,
                int count) {
  int status = 0;
  while (count-- > 0 && !status) status = launch(function, grid, 1, 1, block, 1, 1, shared, stream, params, 0);
  return status;
}
"""

Burst = Callable[[], None]
"""Makes BURST launches."""


@dataclass(frozen=True)
class Case:
    """A kernel that sums tensors: `arguments` counts its inputs, its output and the number of elements."""

    arguments: int

    @property
    def inputs(self) -> int:
        """How many tensors it reads."""
        return self.arguments - 2

    @property
    def source(self) -> str:
        """The kernel, for `triton.jit` and for us."""
        names = ", ".join(f"in{i}" for i in range(self.inputs))
        total = " + ".join(f"tl.load(in{i} + at, mask=inside)" for i in range(self.inputs))
        return (
            "import triton\nimport triton.language as tl\n\n\n"
            f"@triton.jit\ndef total({names}, out, n, BLOCK: tl.constexpr):\n"
            "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    inside = at < n\n"
            f"    tl.store(out + at, {total}, mask=inside)\n"
        )

    @property
    def kernel(self) -> TritonKernel:
        """The definition."""
        names = [f"in{i}" for i in range(self.inputs)]
        params = [f"read f32* {name} divisible(16)" for name in names] + [
            "write f32* out divisible(16)",
            "i32 n",
        ]
        text = (
            f'wir 0.1\ntarget cuda:0\nkernel triton @total{self.arguments} entry "total" ({", ".join(params)})\n'
            f"  order({', '.join([*names, 'out', 'n', 'BLOCK'])})\n  configs({{BLOCK = 256}} warps(4) stages(1))\n"
            f"  grid(ceildiv(n, BLOCK))\n  {{{{{{\n{self.source}\n}}}}}}\nfunc @main() {{\n  return\n}}\n"
        )
        [kernel] = parse_program(text).kernels
        assert isinstance(kernel, TritonKernel)
        return kernel

    def tensors(self) -> list[torch.Tensor]:
        """Inputs, then the output."""
        return [torch.randn(ELEMENTS, device="cuda") for _ in range(self.inputs + 1)]


@dataclass(frozen=True)
class Row:
    """Nanoseconds a launch for each side, and ratios of ours to others."""

    case: Case
    times: dict[str, float]
    ratios: dict[str, float]


# Any: a generated function's arguments
def repeated(names: dict[str, Any], call: str, count: int) -> Burst:
    """A function that makes a call `count` times, written out, as a generated wrapper would have it."""
    text = (
        f"def burst({', '.join(names)}):\n    def make_burst():\n"
        + f"        {call}\n" * count
        + "    return make_burst\n"
    )
    space: dict[str, Any] = {}
    exec(text, space)
    burst: Burst = space["burst"](**names)
    return burst


def ours(case: Case, load: Callable[[TritonKernel], Any], tensors: list[torch.Tensor]) -> Burst:
    """Our launches."""
    names = {f"a{i}": t for i, t in enumerate(tensors)}
    return repeated({"k": load(case.kernel), **names}, f"k({', '.join(names)}, {ELEMENTS})", BURST)


def our_sequence(
    case: Case, driver: CudaDriver, load: Callable[[TritonKernel], Any], tensors: list[torch.Tensor]
) -> Burst:
    """Our launches, 16 to a native call."""
    step = Step(load(case.kernel), tuple(range(case.arguments)))
    run = make_sequence(driver, [step] * SEQUENCE, len(tensors), (ELEMENTS,))
    names = {f"a{i}": t for i, t in enumerate(tensors)}
    return repeated({"run": run, **names}, f"run({', '.join(names)})", BURST // SEQUENCE)


@dataclass(frozen=True)
class Bare:
    """The same binary, loaded through ctypes, with its arguments as C takes them."""

    library: ctypes.CDLL
    function: ctypes.c_void_p
    params: Any  # an array of pointers, whose type ctypes makes
    block: int
    shared: int
    stream: ctypes.c_void_p
    keep: tuple[object, ...]

    @classmethod
    def of(cls, binary: Binary, tensors: list[torch.Tensor]) -> Bare:
        """Loads the binary."""
        library = ctypes.CDLL("libcuda.so.1")
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        check(library.cuModuleLoadData(ctypes.byref(module), binary.image))
        check(library.cuModuleGetFunction(ctypes.byref(function), module, binary.facts.symbol.encode()))
        values = [ctypes.c_uint64(t.data_ptr()) for t in tensors]
        values += [ctypes.c_uint64(ELEMENTS), ctypes.c_uint64(0), ctypes.c_uint64(0)]
        params = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        return cls(
            library=library,
            function=function,
            params=params,
            block=binary.facts.num_warps * binary.facts.warp_size,
            shared=binary.facts.shared_bytes,
            stream=ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
            keep=(values, tensors),
        )

    def through_ctypes(self) -> Burst:
        """A call of `cuLaunchKernel` for each launch."""
        names = {
            "launch": self.library.cuLaunchKernel,
            "f": self.function,
            "stream": self.stream,
            "params": self.params,
        }
        call = f"launch(f, {ELEMENTS // 256}, 1, 1, {self.block}, 1, 1, {self.shared}, stream, params, None)"
        return repeated(names, call, BURST)

    def in_c(self, folder: Path) -> Burst:
        """One call of a loop in C."""
        source, output = folder / "loop.c", folder / "loop.so"
        source.write_text(C_LOOP)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(output)], check=True)
        loop = ctypes.CDLL(str(output)).launch_many
        launch = ctypes.cast(self.library.cuLaunchKernel, ctypes.c_void_p)

        def burst() -> None:
            check(
                loop(
                    launch,
                    self.function,
                    ELEMENTS // 256,
                    self.block,
                    self.shared,
                    self.stream,
                    self.params,
                    BURST,
                )
            )

        return burst


def check(status: int) -> None:
    """Raises for an error of the driver."""
    assert status == 0, f"the CUDA driver failed with {status}"


def triton_jit(case: Case, tensors: list[torch.Tensor], folder: Path) -> Burst:
    """Triton's own launches; it reads a kernel's text from its file."""
    path = folder / f"total{case.arguments}.py"
    path.write_text(case.source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = {f"a{i}": t for i, t in enumerate(tensors)}
    call = f"k[({ELEMENTS // 256},)]({', '.join(names)}, {ELEMENTS}, BLOCK=256, num_warps=4)"
    return repeated({"k": module.total, **names}, call, BURST)


def inductor(case: Case, tensors: list[torch.Tensor]) -> Burst | None:
    """Launches of the kernel that Inductor makes of the same sum, as its generated code makes them; None where Inductor
    makes another number of kernels or arguments."""
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    def total(*xs: torch.Tensor) -> torch.Tensor:
        result = xs[0] + 1
        for x in xs[1:]:
            result = result + x
        return result

    before = len(PyCodeCache.modules)
    torch._dynamo.reset()
    torch.compile(total, fullgraph=True)(*tensors[:-1])
    # generated programs, not the files of single kernels, which are loaded, too
    programs = [vars(m) for m in PyCodeCache.modules[before:] if hasattr(m, "call")]
    made = {id(v): v for program in programs for v in program.values() if isinstance(v, CachingAutotuner)}
    if len(made) != 1:
        print(f"Inductor made {len(made)} kernels in {len(programs)} programs", file=sys.stderr)
        return None
    (kernel,) = made.values()
    stream = torch._C._cuda_getCurrentRawStream(torch.cuda.current_device())
    names = {f"a{i}": t for i, t in enumerate(tensors)}
    *inputs, output = names
    pointers = [name for name in kernel.triton_meta["signature"] if "_ptr" in name]
    if len(pointers) != len(tensors):
        print(f"Inductor's kernel has the parameters {pointers}", file=sys.stderr)
        return None
    # a long sum is written into a buffer that comes first; the inputs' order does not change a sum
    ordered = [output if "out" in name.partition("_ptr")[0] else inputs.pop(0) for name in pointers]
    call = f"k.run({', '.join(ordered)}, {ELEMENTS}, stream=stream)"
    burst = repeated({"k": kernel, "stream": stream, **names}, call, BURST)
    try:
        burst()
    except TypeError as error:
        print(f"Inductor's kernel takes other arguments: {error}", file=sys.stderr)
        return None
    return burst


def measure(case: Case, folder: Path) -> Row:
    """All sides of one case, in alternating rounds."""
    driver, unchecked = CudaDriver(), CudaDriver(options=CudaOptions(check_args=False))
    major, minor = torch.cuda.get_device_capability()
    target = Target(device=Device("cuda", torch.cuda.current_device()), arch=f"sm_{major}{minor}")
    runtime = TritonRuntime(options=TritonOptions(driver=driver))
    other = TritonRuntime(options=TritonOptions(driver=unchecked))
    tensors = case.tensors()
    bare = Bare.of(runtime.compile([case.kernel], target)[case.kernel.name], tensors)
    sides: dict[str, Burst | None] = {
        "ours": ours(case, lambda k: runtime.load(k, target), tensors),
        "ours, unchecked": ours(case, lambda k: other.load(k, target), tensors),
        f"ours, {SEQUENCE} in a call": our_sequence(case, driver, lambda k: runtime.load(k, target), tensors),
        "ctypes": bare.through_ctypes(),
        "loop in C": bare.in_c(folder),
        "triton.jit": triton_jit(case, tensors, folder),
        "Inductor": inductor(case, tensors),
    }
    present = {name: side for name, side in sides.items() if side is not None}
    check_results(case, present, tensors)
    rounds = [one_round(present, i) for i in range(ROUNDS)]
    times = {name: min(r[name] for r in rounds) for name in present}
    ratios = {
        name: statistics.median(r["ours"] / r[name] for r in rounds) for name in present if name != "ours"
    }
    return Row(case, times, ratios)


def check_results(case: Case, sides: dict[str, Burst], tensors: list[torch.Tensor]) -> None:
    """Each side computes the sum; a launch that does nothing would be fast."""
    expected = sum(tensors[1:-1], tensors[0])
    for name, side in sides.items():
        tensors[-1].fill_(torch.nan)
        side()
        torch.cuda.synchronize()
        offset = 1 if name == "Inductor" else 0
        torch.testing.assert_close(
            tensors[-1],
            expected + offset,
            rtol=1e-4,
            atol=1e-4,
            msg=lambda text, name=name: f"{name}, {case.arguments} arguments: {text}",
        )


def one_round(sides: dict[str, Burst], index: int) -> dict[str, float]:
    """Nanoseconds a launch for each side; who goes first changes from round to round."""
    names = list(sides)
    names = names[index % len(names) :] + names[: index % len(names)]
    times: dict[str, float] = {}
    for name in names:
        torch.cuda.synchronize()
        start = time.perf_counter()
        sides[name]()
        times[name] = (time.perf_counter() - start) * 1e9 / BURST
    torch.cuda.synchronize()
    return times


def report(rows: list[Row]) -> str:
    """The document."""
    names = list(rows[0].times)
    lines = [
        "# Launching a Triton kernel",
        "",
        "Written by `python -m tools.bench.bench_launch --write`; not edited by hand.",
        "",
        "## Prediction",
        "",
        PREDICTION,
        "",
        "## Measured",
        "",
        f"{torch.cuda.get_device_name()}, Python {platform.python_version()}, torch {torch.__version__}, Triton "
        f"{triton.__version__}. Nanoseconds a launch, best of {ROUNDS} alternating rounds of {BURST} launches, the "
        "interpreter's part included.",
        "",
        f"| arguments | {' | '.join(names)} |",
        f"| --- |{' --- |' * len(names)}",
        *(
            f"| {row.case.arguments} | {' | '.join(cell(row.times, name, '.0f') for name in names)} |"
            for row in rows
        ),
        "",
        "Ours over each of the others, the median of the rounds' ratios:",
        "",
        f"| arguments | {' | '.join(names[1:])} |",
        f"| --- |{' --- |' * len(names[1:])}",
        *(
            f"| {row.case.arguments} | {' | '.join(cell(row.ratios, name, '.2f') for name in names[1:])} |"
            for row in rows
        ),
        "",
        "Goals: " + ", ".join(f"at most {goal} of {name}" for name, goal in GOALS.items()) + ".",
        "",
        *(f"Not measured (see the command's messages): {name}.\n" for name in GOALS if name not in names),
    ]
    return "\n".join(lines)


def cell(values: dict[str, float], name: str, form: str) -> str:
    """A number of the table; Inductor may have made another kernel."""
    return format(values[name], form) if name in values else "none"


def main() -> int:
    """Runs the benchmark; exit status 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks/launch.md")
    write = parser.parse_args().write
    if not torch.cuda.is_available():
        print("this benchmark needs a CUDA device", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(Case(arguments), Path(folder)) for arguments in ARGUMENTS]
    text = report(rows)
    print(text)
    if write:
        write_report("launch", text)
    missed = [
        (r.case.arguments, n)
        for r in rows
        for n, goal in GOALS.items()
        if r.ratios.get(n, float("inf")) > goal
    ]
    for arguments, name in missed:
        print(f"missed: {arguments} arguments against {name}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
