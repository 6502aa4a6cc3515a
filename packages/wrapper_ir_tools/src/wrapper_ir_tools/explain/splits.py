"""Explains why parts of a program are not captured in one CUDA graph."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir_passes.analysis.regions import RegionOptions, find_regions
from wrapper_ir_passes.cleanup.derive_frees import strip_frees
from wrapper_ir_tools.explain.model import ExplainedOp, Split

_NAME = re.compile(r"[%@][^\s:]+")


def graph_splits(analyses: Analyses, explained: tuple[ExplainedOp, ...]) -> Iterator[Split]:
    """Yields one item for each reason; none for a program that runs on the CPU alone, which has no such
    graphs.
    """
    program = analyses.program
    if program.target.device.type == ir.CPU.type:
        return
    stripped = analyses.after(strip_frees(program))
    body = program.main.body
    positions = [at for at, op in enumerate(body) if not isinstance(op, ir.EndOp)]
    graphed = {f.name for f in program.functions if f.replayable}
    main = [op for op in explained if op.function == program.main.name]
    positions_by_reason: dict[str, list[int]] = {}
    for split in find_regions(stripped, RegionOptions()).splits:
        if graphed.isdisjoint(ir.callees(body[positions[split.position]])):
            positions_by_reason.setdefault(_NAME.sub("...", split.why), []).append(positions[split.position])
    for why, at in positions_by_reason.items():
        ops = tuple(main[p].index for p in at)
        sources = tuple(dict.fromkeys(s for p in at for s in main[p].sources[:1]))
        yield Split(what="cuda graph", why=why, ops=ops, sources=sources)
