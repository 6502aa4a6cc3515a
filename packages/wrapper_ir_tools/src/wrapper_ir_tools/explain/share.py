"""Counts the emitted lines that lead to a source line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wrapper_ir_tools.explain.model import ExplainedLine, Explanation, Lead

_LEADS: Mapping[Lead, str] = {
    Lead.OWN: "by what the frontend recorded for the op",
    Lead.VALUE: "by the op that it serves",
    Lead.FORWARD: "by the forward graph that saved a tensor",
    Lead.NONE: "not at all",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShare:
    """Counts of lines of code, without blank lines, comments and the docstring of a module.

    `led` lines lead to a source line, `explained` ones have a reason why not (counted in `reasons`), and the
    others have neither. `op_lines` are written for an op, and `op_led` of them lead to a source line;
    `by_lead` counts them by `Lead`.
    """

    lines: int
    led: int
    explained: int
    op_lines: int
    op_led: int
    by_lead: Mapping[str, int]
    reasons: Mapping[str, int]

    @property
    def share(self) -> float:
        """The fraction of lines that lead to a source line or have a reason why not."""
        return (self.led + self.explained) / self.lines if self.lines else 1.0

    @property
    def op_share(self) -> float:
        """The fraction of the lines of an op that lead to a source line."""
        return self.op_led / self.op_lines if self.op_lines else 1.0


def line_share(explanations: Iterable[Explanation]) -> LineShare:
    """Counts over all files of these programs."""
    code: list[ExplainedLine] = []
    leads: Counter[str] = Counter()
    for explanation in explanations:
        file_lines = [line for file in explanation.files for line in file.lines if line.is_code]
        leads.update(explanation.ops[line.op].lead.value for line in file_lines if line.op is not None)
        code += file_lines
    of_ops = [line for line in code if line.op is not None]
    without = [line for line in code if not line.sources]
    return LineShare(
        lines=len(code),
        led=len(code) - len(without),
        explained=sum(bool(line.reason) for line in without),
        op_lines=len(of_ops),
        op_led=sum(bool(line.sources) for line in of_ops),
        by_lead=dict(leads),
        reasons=dict(Counter(line.reason for line in without if line.reason).most_common()),
    )


def share_text(share: LineShare) -> str:
    """Formats the counts as a table, ending in a newline."""
    rest = share.lines - share.led - share.explained
    rows: list[tuple[str, int | str]] = [
        ("lines of code", share.lines),
        ("lead to a source line", share.led),
        ("say why not", share.explained),
        *((f"  {reason}", count) for reason, count in share.reasons.items()),
        ("neither", rest),
        ("share that leads to a source line or says why not", f"{share.share:.1%}"),
        ("lines written for ops", share.op_lines),
        *((f"  {words}", share.by_lead.get(lead.value, 0)) for lead, words in _LEADS.items()),
        ("of these, share that leads to a source line", f"{share.op_share:.1%}"),
    ]
    return "".join(f"{label:<52}{value:>7}\n" for label, value in rows)
