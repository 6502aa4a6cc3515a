"""Measures launches of a compiled CPU kernel from Python, against Inductor's own binding, in one run.

Usage: `python -m tools.bench.bench_cpp_launch [--write]`. Prints a table; `--write` also writes
`docs/benchmarks/cpp_launch.md`, prediction first.

Both sides launch the same empty kernels, so the time is the launch. Rounds of the two sides alternate and the
fastest round of each counts, so that other load on the machine affects both alike. The two binds of a kernel
are also timed with argument checks off.
"""

from __future__ import annotations

import platform
import sys
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch._inductor.codecache import CppPythonBindingsCodeCache

from cpp_wrapper import CppKernelRuntime, CppOptions
from tools.bench.pages import command_line, page, publish, table
from tools.bench.timing import alternate
from wrapper_ir import ir

PREDICTION = """\
Written before the first measurement. Inductor's binding builds an argument tuple and calls one function of
libtorch_python for each tensor; ours takes the interpreter's own argument array and reads the tensor in place. A
launch therefore costs about 0.7 of Inductor's for two tensors and about 0.5 for ten; comparing dtype and device
costs about a nanosecond a tensor, which is not worth a switch that people must think about."""

ROUNDS = 40
CALLS = 20_000


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel signature: how many tensors and how many sizes."""

    tensors: int
    sizes: int

    @property
    def name(self) -> str:
        """The row's name in the table."""
        return f"{self.tensors} tensors, {self.sizes} sizes"

    @property
    def kernel(self) -> ir.CppKernel:
        """A kernel that does nothing with that many arguments."""
        declared = [f"float* p{i}" for i in range(self.tensors)] + [
            f"const int64_t s{i}" for i in range(self.sizes)
        ]
        pointers = [
            ir.KernelParam(
                name=f"p{i}", kind=ir.ParamKind.POINTER, dtype=ir.DType.F32, access=ir.Access.READWRITE
            )
            for i in range(self.tensors)
        ]
        scalars = [
            ir.KernelParam(name=f"s{i}", kind=ir.ParamKind.SCALAR, dtype=ir.DType.I64)
            for i in range(self.sizes)
        ]
        return ir.CppKernel(
            name=f"noop_{self.tensors}_{self.sizes}",
            params=(*pointers, *scalars),
            source=f'#include <cstdint>\nextern "C" void kernel({", ".join(declared)}) {{}}\n',
            entry="kernel",
        )

    @property
    def args(self) -> tuple[torch.Tensor | int, ...]:
        """Arguments that fit."""
        return (*(torch.empty(64) for _ in range(self.tensors)), *(1000 + i for i in range(self.sizes)))


CASES = (Case(1, 0), Case(2, 1), Case(4, 2), Case(10, 2), Case(30, 4))


@dataclass(frozen=True, slots=True)
class Row:
    """Nanoseconds a launch for one case."""

    case: Case
    ours: float
    unchecked: float
    inductor: float

    @property
    def ratio(self) -> float:
        """Our checked launch over Inductor's (which checks nothing)."""
        return self.ours / self.inductor


def inductor_launch(case: Case) -> Callable[..., None]:
    """Returns the same kernel behind Inductor's binding."""
    types = ["float*"] * case.tensors + ["const int64_t"] * case.sizes
    launch: Callable[..., None] = CppPythonBindingsCodeCache.load_pybinding(types, case.kernel.source)
    return launch


def fastest(launches: list[Callable[..., None]], args: tuple[torch.Tensor | int, ...]) -> list[float]:
    """Nanoseconds a call for each callable: the fastest of many alternating rounds."""
    names = ", ".join(f"a{i}" for i in range(len(args)))
    timers = [
        # The call is written out, as in a generated wrapper: no argument unpacking.
        timeit.Timer(f"f({names})", globals={"f": launch, **{f"a{i}": a for i, a in enumerate(args)}})
        for launch in launches
    ]
    times = alternate({str(i): partial(t.timeit, CALLS) for i, t in enumerate(timers)}, ROUNDS)
    return [1e9 * min(seconds) / CALLS for seconds in times.values()]


def measure() -> list[Row]:
    """All cases."""
    kernels = [case.kernel for case in CASES]
    checked = CppKernelRuntime().load_all(kernels, ir.Target())
    unchecked = CppKernelRuntime(options=CppOptions(check_args=False)).load_all(kernels, ir.Target())
    rows = []
    for case in CASES:
        name = case.kernel.name
        times = fastest([checked[name], unchecked[name], inductor_launch(case)], case.args)
        rows.append(Row(case, *times))
    return rows


FOLLOWS = """\
- Argument checks stay on by default.
- The GIL stays held during a kernel. Cost is not the reason (an empty function that releases it and takes it
  back takes 30 ns instead of 8): Inductor's kernels are not reentrant. They keep reduction helpers in function
  statics and report integer division by zero through one global pointer, so two threads may not be inside at
  once."""


def report(rows: list[Row]) -> str:
    """The document."""
    about = (
        f"Python {platform.python_version()}, torch {torch.__version__}, {platform.machine()}, kernels that do nothing; "
        f"fastest of {ROUNDS} alternating rounds of {CALLS:,} calls, nanoseconds a call, interpreter's loop included."
    )
    times = table(
        ("kernel", "ours", "ours, `check_args=False`", "Inductor", "ours / Inductor"),
        [
            (r.case.name, f"{r.ours:.0f}", f"{r.unchecked:.0f}", f"{r.inductor:.0f}", f"{r.ratio:.2f}")
            for r in rows
        ],
    )
    return page(
        "Launching a C++ kernel",
        "python -m tools.bench.bench_cpp_launch --write",
        ("Prediction", PREDICTION),
        ("Measured", f"{about}\n\n{times}"),
        ("What follows", FOLLOWS),
    )


def main() -> int:
    """Runs the benchmark; exit status 1 where a launch costs more than Inductor's."""
    options = command_line(__doc__).parse_args()
    rows = measure()
    publish("cpp_launch", report(rows), options)
    return 0 if all(row.ratio <= 1.0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
