"""Measures parsing, printing, verification, conversion and storage of programs, and their growth with the
ops.

Usage: `python -m tools.bench.bench_ir_scale [--write] [OPS ...]`. Programs are synthetic: layers of
allocations, a library call, a launch and views, with derived lifetimes, as in a capture of a deep model.
Times are the best of a few rounds, in process time. "growth" is the time per op of the largest program over
that of the next smaller one: 1.0 is linear. `--write` also writes `docs/benchmarks/ir_scale.md`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tools.bench.growing_programs import FAMILIES, NO_SIZES
from tools.bench.growing_steps import COUNTS_BYTES, STEPS
from tools.bench.pages import command_line, page, publish, table
from tools.bench.timing import best_seconds
from wrapper_ir import check, from_json, ir, load, parse_program, print_program, save, to_json
from wrapper_ir.artifact import Artifact
from wrapper_ir.builder import FunctionBuilder, ProgramBuilder, tensor_type
from wrapper_ir.expr import Sym
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.cleanup.dead_ops import EliminateDeadOps
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_passes.translation import compare

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 3
PREDICTION = """\
Written before the first measurement. Verification makes two walks with a handful of dictionary look-ups an operand:
about 10 us an op, so 1.0 s for 100,000 ops. Printing and JSON format a line or a record an op, 10 to 20 us; parsing
reads about ten tokens an op, 40 us. Nothing looks back over the ops, so all growth stays below 1.2, which is what
larger heaps cost."""

_LEAF = ir.TreeSpec(kind=ir.TreeKind.LEAF)


def _pointer(name: str, access: ir.Access) -> ir.KernelParam:
    return ir.KernelParam(name=name, kind=ir.ParamKind.POINTER, dtype=ir.DType.F32, access=access)


KERNEL = ir.CppKernel(
    name="cpp_fused_add_relu_0",
    params=(
        _pointer("in_ptr0", ir.Access.READ),
        _pointer("in_ptr1", ir.Access.READ),
        _pointer("out_ptr0", ir.Access.WRITE),
    ),
    source="// fused add and relu\n",
    entry="kernel",
)
MATMUL = ir.ExternDef(schema="aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)")


def synthetic(ops: int, *, dynamic: bool = False) -> ir.Program:
    """A valid program of at least `ops` ops; with `dynamic`, over a symbolic batch size."""
    builder = ProgramBuilder()
    main = builder.function("main")
    if dynamic:
        builder.symbol(ir.SymbolDef(name="s0", lower=2, upper=1024, hint=64))
    rows = Sym("s0") if dynamic else 64
    x = main.param("x", tensor_type(ir.DType.F32, (rows, 64)))
    w = main.param("w", tensor_type(ir.DType.F32, (64, 64)))
    if dynamic:
        main.define("s0", ir.SizeOf(x, 0))
    current = x
    # a layer is eight ops with the frees and drops that are derived
    for k in range(-(-ops // 10)):
        current = _layer(main, k, current, w, x.type)
    main.ret((current,))
    return derive_frees(builder.finish())


def _layer(
    main: FunctionBuilder, k: int, x: ir.Value, w: ir.Value, type: ir.TensorType
) -> ir.Value[ir.TensorType]:
    rows, columns = type.sizes
    matmul = main.alloc(f"buf{2 * k}", tensor_type(ir.DType.F32, (rows, columns)))
    main.call(MATMUL, (x, w), (("out", matmul),))
    sum_ = main.alloc(f"buf{2 * k + 1}", tensor_type(ir.DType.F32, (rows, columns)))
    main.launch(KERNEL, (matmul, x, sum_))
    flat = main.view(f"flat{k}", sum_, tensor_type(ir.DType.F32, (rows * columns,)))
    return main.view(f"out{k}", flat, tensor_type(ir.DType.F32, (rows, columns)))


def _artifact(program: ir.Program) -> Artifact:
    args = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(_LEAF, _LEAF))
    inputs = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(args, ir.TreeSpec(kind=ir.TreeKind.DICT)))
    signature = ir.Signature(
        inputs=inputs, params=(0, 1), outputs=_LEAF, bindings=(ir.ResultOutput(index=0),)
    )
    return Artifact(program=program, constants={}, signature=signature)


def _seconds(run: Callable[[], object]) -> float:
    return best_seconds(run, ROUNDS)


def measure(program: ir.Program, folder: Path) -> dict[str, float]:
    """Seconds of each step."""
    text, json, file = print_program(program), to_json(program), folder / "program.wir"
    artifact = _artifact(program)
    times = {
        "verify": _seconds(lambda: check(program)),
        "print": _seconds(lambda: print_program(program)),
        "parse": _seconds(lambda: parse_program(text)),
        "to JSON": _seconds(lambda: to_json(program)),
        "from JSON": _seconds(lambda: from_json(json)),
        "save artifact": _seconds(lambda: save(artifact, file)),
        "load artifact": _seconds(lambda: load(file)),
        "derive frees": _seconds(lambda: derive_frees(program)),
        "dead ops": _seconds(lambda: EliminateDeadOps().run(program)),
        "compare": _seconds(lambda: compare(program, program)),
        "statistics": _seconds(lambda: program_stats(program)),
    }
    assert check(program) == ()
    assert parse_program(text) == program
    return times


def _family_row(name: str) -> list[object]:
    """Returns the times of a family of programs in each step, and their growth from half as many parts."""
    make, first = FAMILIES[name]
    programs = [derive_frees(parse_program(make(parts))) for parts in (2 * first, 4 * first)]
    cells: list[object] = [name, 4 * first]
    for step, run in STEPS.items():
        if name in NO_SIZES and step in COUNTS_BYTES:
            cells.append("")
            continue
        before, last = (_seconds(partial(run, program)) for program in programs)
        cells.append(f"{last:.3f} ({last / before:.1f})")
    return cells


FAMILY_HEADERS = ("family", "parts", *STEPS)
FAMILY_TEXT = """Families of programs that grow in one way each: seconds, and how many times as much as for half as many parts (2.0 is
linear; below some 10 ms that is noise). "text" and "JSON" write a program and read it again."""


def _import_seconds() -> float:
    """Best time of `import wrapper_ir` in a new process, above that of an empty one."""

    def run(code: str) -> float:
        command = [sys.executable, "-c", code]
        return best_seconds(lambda: subprocess.run(command, check=True), 5, time.perf_counter)

    return run("import wrapper_ir") - run("pass")


def report(sizes: Sequence[int], *, dynamic: bool) -> str:
    """The table of all steps over all sizes."""
    counts: list[int] = []
    columns: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            program = synthetic(size, dynamic=dynamic)
            counts.append(len(program.main.body))
            columns.append(measure(program, Path(folder)))
    rows = []
    for step in columns[0]:
        per_op = [column[step] / count for column, count in zip(columns, counts)]
        growth = f"{per_op[-1] / per_op[-2]:.2f}" if len(per_op) > 1 else ""
        cells = [f"{column[step]:.3f} ({1e6 * t:.1f})" for column, t in zip(columns, per_op)]
        rows.append([step, *cells, growth])
    head = ["seconds (us an op)", *(f"{count:,} ops" for count in counts), "growth"]
    return table(head, rows)


def main() -> None:
    """Run the command line."""
    parser = command_line(__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=list(SIZES), metavar="OPS")
    options = parser.parse_args()
    measured = ["Fixed sizes:", report(options.sizes, dynamic=False)]
    measured += ["A symbolic batch size:", report(options.sizes, dynamic=True)]
    measured += [FAMILY_TEXT, table(FAMILY_HEADERS, map(_family_row, FAMILIES))]
    measured += [f"`import wrapper_ir`: {_import_seconds():.3f} s above an empty process."]
    text = page(
        "Programs of up to 100,000 ops",
        "python -m tools.bench.bench_ir_scale --write",
        ("Prediction", PREDICTION),
        ("Measured", "\n\n".join(measured)),
    )
    publish("ir_scale", text, options)


if __name__ == "__main__":
    main()
