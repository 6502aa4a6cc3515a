"""Prints an explanation: from each source line down to emitted lines and reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wrapper_ir.artifact.choices import Choice
from wrapper_ir.support.quoting import printable
from wrapper_ir_tools.explain.lookup import ops_by_source
from wrapper_ir_tools.explain.model import ExplainedFile, ExplainedOp, Explanation, Lead

_WIDTH = 100
"""Maximum width of an op or a line."""


def explanation_text(explanation: Explanation, ops: Sequence[ExplainedOp] | None = None) -> str:
    """Formats the explanation for a terminal, ending in a newline; if `ops` are given, only theirs."""
    return "\n".join(map(printable, _Text(explanation, ops).lines())) + "\n"


class _Text:
    def __init__(self, explanation: Explanation, ops: Sequence[ExplainedOp] | None) -> None:
        self.explanation = explanation
        self.wanted = None if ops is None else {op.index for op in ops}
        self.written = {file.name: _lines_by_op(file) for file in explanation.files}

    def lines(self) -> Iterator[str]:
        """Yields all lines."""
        for source, ops in ops_by_source(self.explanation).items():
            selection = [op for op in ops if self._is_wanted(op)]
            if selection:
                yield from self._source(source, selection)
        yield from self._reasons()
        for lack in self.explanation.lacks:
            yield f"not here: {lack}"

    def _is_wanted(self, op: ExplainedOp) -> bool:
        return self.wanted is None or op.index in self.wanted

    def _source(self, source: str, ops: Sequence[ExplainedOp]) -> Iterator[str]:
        text = self.explanation.source_texts.get(source, "")
        yield f"{source or 'no source line'}{f'  {_short(text)}' if text else ''}"
        for op in ops:
            yield from self._op(op)
        yield ""

    def _op(self, op: ExplainedOp) -> Iterator[str]:
        yield f"  op {op.index} @{op.function}: {_short(op.text)}"
        if op.nodes:
            yield f"    nodes {_short(', '.join(op.nodes))}"
        if op.operators:
            yield f"    operators {_short(', '.join(op.operators))}"
        if op.modules:
            yield f"    modules {_short(', '.join(op.modules))}"
        if op.kernel:
            yield f"    kernel @{op.kernel}"
        if op.lead is not Lead.OWN:
            yield f"    {op.reason}"
        for name, by_op in self.written.items():
            numbers = by_op.get(op.index, ())
            if numbers:
                yield f"    {name}:{_ranges(numbers)}"

    def _reasons(self) -> Iterator[str]:
        explanation = self.explanation
        choices = [c for c in explanation.choices if self.wanted is None or self.wanted.intersection(c.ops)]
        for choice in choices:
            yield from _choice(choice)
        for place in explanation.in_place:
            if self.wanted is None or place.op in self.wanted:
                how = f"over %{place.reused}" if place.reused else "new memory"
                yield f"op {place.op} writes %{place.result}: {how}"
                yield from (f"    {reason}" for reason in place.reasons)
        for split in explanation.splits:
            if self.wanted is None or self.wanted.intersection(split.ops):
                ops = f", {len(split.ops)} op(s): {_ranges(split.ops)}" if split.ops else ""
                yield f"split of a {split.what}: {split.why}{ops}"
                yield from (f"    {source}" for source in split.sources)


def _choice(choice: Choice) -> Iterator[str]:
    ops = f" (op {_ranges(choice.ops)})" if choice.ops else ""
    yield f"{choice.subject}{ops}: {choice.why}"
    for one in choice.candidates:
        time = "" if one.microseconds is None else f"  {one.microseconds:.1f} us"
        mark = "*" if one.chosen else " "
        yield f"  {mark} {one.name}{time}{f'  {one.detail}' if one.detail else ''}"


def _lines_by_op(file: ExplainedFile) -> dict[int, list[int]]:
    numbers: dict[int, list[int]] = {}
    for line in file.lines:
        if line.op is not None:
            numbers.setdefault(line.op, []).append(line.number)
    return numbers


def _ranges(numbers: Sequence[int]) -> str:
    """Formats numbers as `3`, `3-5` or `3-5, 9`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
