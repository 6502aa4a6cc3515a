"""A memory report as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from wrapper_ir.support.quoting import printable
from wrapper_ir_passes.analysis.stats import shown_bytes
from wrapper_ir_tools.report.memory import MemoryReport

_MOST = 20
"""Maximum number of rows of a table."""
_WIDTH = 90
"""Maximum width of an op or a source."""


def report_text(report: MemoryReport) -> str:
    """Formats the report for a terminal, ending in a newline: totals, the peak, and savings."""
    return "\n".join(map(printable, _lines(report))) + "\n"


def _lines(report: MemoryReport) -> Iterator[str]:
    rows = {
        "peak bytes held": report.held_peak,
        "live bytes in this order": report.live,
        "bound of plans in this order": report.bound,
        "bytes allocated": report.allocated,
        "beside them: constants": report.constants,
        "beside them: arguments": report.arguments,
    }
    for name, value in rows.items():
        yield f"{name:<30}{shown_bytes(value)}"
    yield f"{'allocations':<30}{report.allocations}"
    if report.assumed:
        yield f"{'symbols without hint':<30}{', '.join(report.assumed)}"
    if report.unknown_temporaries:
        yield f"{'temporaries not known':<30}{_counts(report.unknown_temporaries)} (counted as 0)"
    yield ""
    for moment in report.peak:
        yield f"worst moment: op {moment.op_index} of @{moment.function}"
        yield f"  {_short(moment.op)}"
        if moment.source:
            yield f"  {_short(moment.source)}"
    yield ""
    yield from _table(
        ("bytes", "storage", "kind", "ops", "filled by"),
        [
            (
                f"{s.bytes:,}",
                f"@{m.function} %{s.name}",
                s.kind,
                f"{s.begin}-{s.end - 1}",
                ": ".join((*s.modules[:1], s.op)),
            )
            for m, s in report.held_at_peak()
        ],
        "held at the worst moment",
    )
    if report.savings:
        yield ""
        yield from _table(
            ("saves", "storage", "idle", "how"),
            [
                (
                    f"{s.saves:,}",
                    f"@{s.function} %{s.name}",
                    f"{s.idle_from}-{s.idle_to}",
                    " or ".join(s.how) + (f": {s.again}" if s.again else ""),
                )
                for s in report.savings
            ],
            "what would save at the moment at which most is live (a report: nothing is changed)",
        )


def _counts(calls: Mapping[str, int]) -> str:
    names = [name if count == 1 else f"{name} x{count}" for name, count in calls.items()]
    more = len(names) - _MOST
    return ", ".join((*names[:_MOST], *((f"and {more} more",) if more > 0 else ())))


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


def _table(headers: tuple[str, ...], rows: Iterable[tuple[str, ...]], title: str) -> Iterator[str]:
    all_rows = list(rows)
    visible = [headers, *all_rows[:_MOST]]
    widths = [max(len(row[i]) for row in visible) for i in range(len(headers) - 1)]
    yield f"{title}:"
    for row in visible:
        last = _short(row[-1])
        cells = [row[0].rjust(widths[0]), *(c.ljust(w) for c, w in zip(row[1:-1], widths[1:], strict=True))]
        yield "  " + "  ".join((*cells, last)).rstrip()
    if len(all_rows) > _MOST:
        yield f"  and {len(all_rows) - _MOST} more"
