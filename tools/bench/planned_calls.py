"""Measures a call of a planned program against the same program without a plan, and counts its allocations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

import fx_converter
import inductor_frontend
import py_wrapper
from tests.common.compare import allocated
from tests.common.zoo import ZOO, Case, gpt2
from tools.bench.timing import compare
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_passes import MEMORY_PASSES, run_pipeline

PREDICTION = """\
Written before the first measurement. A planned call used to make a tensor for each view of a slot, and to cost 1.1 of an
unplanned one on `gpt2`. Equal windows of a pool are now made once a call, and a pool has the element type of most of its
views, so that a planned call makes no more tensors than it saves allocations: 0.95 to 1.0. With persistent buffers the program
is planned into one pool, which is held with its windows: a call allocates its results and what operators return, and nothing
else, and takes 0.75 to 0.9. Sizes that are symbols are allocated by each call. That was wrong without them: 1.05. Written before the
second measurement, of calls that keep tensors and no memory: a pool costs 0.15 us and a window nothing, so 0.8 on `gpt2`."""

OUTCOME = """\
As predicted. A planned call makes no tensor but results, and resizes a storage for each pool: it saves 42 allocations of 62 on
`gpt2`, 2 of 4 on `mlp`. The times are of a machine that others used at the same time; the ratios are medians of alternating
rounds."""

_CASES: dict[str, Callable[[], Case]] = {"mlp": ZOO["mlp"], "gpt2, 4 blocks": lambda: gpt2(layers=4)}
_EMITTERS: dict[str, Callable[[Artifact, bool], CompiledProgram]] = {
    "Python": lambda a, keep: py_wrapper.compile(a, py_wrapper.PyOptions(persistent_buffers=keep)),
    "FX": lambda a, keep: fx_converter.compile(a, fx_converter.FxOptions(persistent_buffers=keep)),
}
HEADERS = ("model", "emitter", "call", "us", "no plan us", "ratio", "allocations", "no plan")


def rows() -> list[tuple[object, ...]]:
    """The table, on one thread."""
    lines: list[tuple[object, ...]] = []
    with torch.no_grad():
        for name, make in _CASES.items():
            case = make()
            kwargs = dict(case.kwargs or {})
            artifact = inductor_frontend.capture(case.model, case.args, kwargs)
            leaves = [*case.args, *kwargs.values()]
            planned = dataclasses.replace(artifact, program=run_pipeline(artifact.program, MEMORY_PASSES))
            for emitter, compiled in _EMITTERS.items():
                plain = compiled(artifact, False)
                for kind, run in (
                    ("planned", compiled(planned, False)),
                    ("persistent buffers", compiled(artifact, True)),
                ):
                    ratio = compare(lambda: run.boxed([*leaves]), lambda: plain.boxed([*leaves]))  # noqa: B023
                    counts = [len(allocated(lambda: r.boxed([*leaves]))) for r in (run, plain)]  # noqa: B023
                    lines.append((name, emitter, kind, *ratio.cells(), *counts))
    return lines
