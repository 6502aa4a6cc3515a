"""Looks up ops by a source line, a node, an op, a kernel, or an emitted line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wrapper_ir.errors import ReportError
from wrapper_ir_tools.explain.model import ExplainedOp, Explanation

QUERY_FORMS = (
    "`linear.py:134` (a source line or an emitted one), `op:12`, `@kernel`, `%value`, or the name of an "
    "FX node, operator or module"
)

_PLACE = re.compile(r"(?P<file>.+):(?P<first>\d+)(?:-(?P<last>\d+))?")


def ops_by_source(explanation: Explanation) -> dict[str, tuple[ExplainedOp, ...]]:
    """Groups the ops by source line, in program order; '' has those without any."""
    groups: dict[str, list[ExplainedOp]] = {}
    for op in explanation.ops:
        for source in op.sources or ("",):
            groups.setdefault(source, []).append(op)
    return {source: tuple(ops) for source, ops in groups.items()}


def find_ops(explanation: Explanation, query: str) -> tuple[ExplainedOp, ...]:
    """Finds the ops for `query`, in one of the forms of `QUERY_FORMS`. Raises ReportError WIR272 if none
    match.
    """
    numbers = sorted({*_matches(explanation, query)})
    if not numbers:
        raise ReportError(
            "WIR272", f"nothing in {explanation.name} is {query!r}", hint=f"one of {QUERY_FORMS}"
        )
    return tuple(explanation.ops[n] for n in numbers)


def _matches(explanation: Explanation, query: str) -> Iterable[int]:
    if query.startswith("@"):
        kernel = [k for k in explanation.kernels if k.name == query[1:]]
        return [n for k in kernel for n in k.ops] or [
            op.index for op in explanation.ops if op.function == query[1:]
        ]
    if query.startswith("%"):
        return [op.index for op in explanation.ops if query[1:] in op.results]
    place = _PLACE.fullmatch(query)
    if place is None:
        return [
            op.index for op in explanation.ops if query in (*op.nodes, *op.operators, *op.modules, op.extern)
        ]
    first = int(place["first"])
    lines = range(first, int(place["last"] or first) + 1)
    if place["file"] == "op":
        return [n for n in lines if n < len(explanation.ops)]
    return [*_of_sources(explanation, place["file"], lines), *_of_lines(explanation, place["file"], lines)]


def _of_sources(explanation: Explanation, file: str, lines: range) -> Iterable[int]:
    for op in explanation.ops:
        for source in op.sources:
            path, _, number = source.rpartition(":")
            if int(number or 0) in lines and _ends_in(path, file):
                yield op.index
                break


def _of_lines(explanation: Explanation, name: str, lines: range) -> Iterable[int]:
    kernels = {k.name: k for k in explanation.kernels}
    for file in explanation.files:
        if not _ends_in(file.name, name):
            continue
        for line in file.lines:
            if line.number not in lines:
                continue
            if line.op is not None:
                yield line.op
            elif line.kernel in kernels:
                yield from kernels[line.kernel].ops


def _ends_in(path: str, suffix: str) -> bool:
    return path == suffix or path.endswith(f"/{suffix}")
