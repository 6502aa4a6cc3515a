"""Measures launches of a Triton kernel from Python, against the CUDA driver and other launchers, on one GPU.

Usage: `python -m tools.bench.bench_launch [--write]`. Prints a table; `--write` also writes
`docs/benchmarks/launch.md`, prediction first. Exit status 1 if a goal is missed.

All sides launch small pointwise kernels with the same number of arguments. Ours, a bare `cuLaunchKernel`
through ctypes and a loop of launches in C use the same binary; `triton.jit` uses the same source; Inductor's
launcher uses the kernel that Inductor generates for the same sum. A round is a burst that fits into the
device's queue, timed until the last launch returns; then the device finishes, untimed. Rounds of all sides
alternate. A ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import triton

from tools.bench.launch_sides import (
    BURST,
    SEQUENCE,
    Bare,
    Burst,
    Case,
    inductor,
    our_sequence,
    ours,
    triton_jit,
)
from tools.bench.pages import command_line, page, publish, table
from tools.bench.timing import alternate, median_ratio, timed
from triton_runtime import TritonOptions, TritonRuntime
from triton_runtime.cuda import CudaDriver, CudaOptions
from wrapper_ir import ir

PREDICTION = """\
Written before the first measurement. On a machine without a GPU, against a driver's library that only writes the launch
down, one of our launches takes 150, 240 and 450 ns with 3, 8 and 19 arguments, of which about 100 ns are that library,
the interpreter's call and the lock of the interpreter, given back and taken again. The driver's own launch takes about
1.5 to 2.5 us. A bare launch through ctypes converts eleven arguments, about 1 us, and with the driver took 3.6 us on an
H200. So ours costs about 0.6 to 0.9 of it, 1.1 to 1.3 of a launch in the loop in C, about 0.25 of `triton.jit` (10.3 us),
and about 0.4 of Inductor's launcher, which computes grid and arguments in Python. A sequence of 16 launches in one call
saves about 50 ns a launch; not checking arguments saves 10 to 90 ns, not worth a switch that people must think about.

Written when a sequence had been measured at 0.99 to 1.16 of the loop in C: it reads each tensor once a call now, looks its
stream up once, and gives the lock of the interpreter back once. Against a driver that does nothing a launch in it takes
35, 50 and 105 ns, of 72, 115 and 215 before. So at most 1.05."""

ARGUMENTS = (3, 8, 19)
GOALS = {"ctypes": 1.3, "triton.jit": 0.35, "Inductor": 0.5}
IN_SEQUENCE, LOOP = f"ours, {SEQUENCE} in a call", "loop in C"
SEQUENCE_GOAL = 1.05
ROUNDS = 60


@dataclass(frozen=True)
class Row:
    """Nanoseconds a launch for each side, ratios of ours to others, and that of launches in a sequence to the
    loop in C.
    """

    case: Case
    times: dict[str, float]
    ratios: dict[str, float]
    in_sequence: float


def measure(case: Case, folder: Path) -> Row:
    """All sides of one case, in alternating rounds."""
    driver, unchecked = CudaDriver(), CudaDriver(options=CudaOptions(check_args=False))
    major, minor = torch.cuda.get_device_capability()
    target = ir.Target(device=ir.Device("cuda", torch.cuda.current_device()), arch=f"sm_{major}{minor}")
    runtime = TritonRuntime(options=TritonOptions(driver=driver))
    other = TritonRuntime(options=TritonOptions(driver=unchecked))
    tensors = case.tensors()
    bare = Bare.of(runtime.compile([case.kernel], target)[case.kernel.name], tensors)
    sides: dict[str, Burst | None] = {
        "ours": ours(case, lambda k: runtime.load(k, target), tensors),
        "ours, unchecked": ours(case, lambda k: other.load(k, target), tensors),
        IN_SEQUENCE: our_sequence(case, driver, lambda k: runtime.load(k, target), tensors),
        "ctypes": bare.through_ctypes(),
        LOOP: bare.in_c(folder),
        "triton.jit": triton_jit(case, tensors, folder),
        "Inductor": inductor(case, tensors),
    }
    present = {name: side for name, side in sides.items() if side is not None}
    check_results(case, present, tensors)
    times = alternate({name: partial(launch_time, side) for name, side in present.items()}, ROUNDS)
    ratios = {name: median_ratio(times["ours"], times[name]) for name in present if name != "ours"}
    best = {name: min(each) for name, each in times.items()}
    return Row(case, best, ratios, median_ratio(times[IN_SEQUENCE], times[LOOP]))


def check_results(case: Case, sides: dict[str, Burst], tensors: list[torch.Tensor]) -> None:
    """Each side computes the sum; a launch that does nothing would be fast."""
    expected = sum(tensors[1:-1], tensors[0])
    for name, side in sides.items():
        tensors[-1].fill_(torch.nan)
        side()
        torch.cuda.synchronize()
        offset = 1 if name == "Inductor" else 0
        if not torch.allclose(tensors[-1], expected + offset, rtol=1e-4, atol=1e-4):
            raise AssertionError(f"{name} computes something else, with {case.arguments} arguments")


def launch_time(side: Burst) -> float:
    """Nanoseconds a launch, when the device has nothing else to do."""
    torch.cuda.synchronize()
    seconds, _ = timed(side)
    torch.cuda.synchronize()
    return seconds * 1e9 / BURST


def report(rows: list[Row]) -> str:
    """The document."""
    names = list(rows[0].times)
    about = (
        f"{torch.cuda.get_device_name()}, Python {platform.python_version()}, torch {torch.__version__}, Triton "
        f"{triton.__version__}. Nanoseconds a launch, best of {ROUNDS} alternating rounds of {BURST} launches, the "
        "interpreter's part included."
    )
    times = [(row.case.arguments, *(cell(row.times, n, ".0f") for n in names)) for row in rows]
    ratios = [(row.case.arguments, *(cell(row.ratios, n, ".2f") for n in names[1:])) for row in rows]
    goals = ", ".join(f"at most {goal} of {name}" for name, goal in GOALS.items())
    missing = [f"Not measured (see the command's messages): {name}." for name in GOALS if name not in names]
    measured = (
        about,
        table(("arguments", *names), times),
        "Ours over each of the others, the median of the rounds' ratios:",
        table(("arguments", *names[1:]), ratios),
        f"Goals: {goals}.",
        f"{SEQUENCE} in a call over the loop in C: "
        + ", ".join(f"{row.in_sequence:.2f} with {row.case.arguments} arguments" for row in rows)
        + f". Goal: at most {SEQUENCE_GOAL}.",
        *missing,
    )
    return page(
        "Launching a Triton kernel",
        "python -m tools.bench.bench_launch --write",
        ("Prediction", PREDICTION),
        ("Measured", "\n\n".join(measured)),
    )


def cell(values: dict[str, float], name: str, form: str) -> str:
    """Formats a number of the table; Inductor's kernel may differ."""
    return format(values[name], form) if name in values else "none"


def main() -> int:
    """Runs the benchmark; exit status 1 where a goal is missed."""
    options = command_line(__doc__).parse_args()
    if not torch.cuda.is_available():
        print("no GPU: nothing to measure", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(Case(arguments), Path(folder)) for arguments in ARGUMENTS]
    publish("launch", report(rows), options)
    missed = [
        (r.case.arguments, n)
        for r in rows
        for n, goal in GOALS.items()
        if r.ratios.get(n, float("inf")) > goal
    ]
    missed += [(r.case.arguments, LOOP) for r in rows if r.in_sequence > SEQUENCE_GOAL]
    for arguments, name in missed:
        print(f"missed: {arguments} arguments against {name}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
