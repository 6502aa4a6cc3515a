"""Refusals of the native runtime by operator and reason, for the page of `native.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

PATTERN = r"\[CPP50[23]\]|\[WIR916\]|native operator has no code for|^capture FE\d+"
"""Errors that refuse a case by name: at capture, at build, or in a call."""

_LACKS = re.compile(r"the native runtime lacks \d+ of the program's operators: (.*?)(?: hint: |$)")
_NAME = re.compile(r"\w+::[\w.]+")
_REASONS = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"the native runtime cannot call (?P<operator>\S+) with these arguments", "arguments without a form in C"),
        (r"(?P<operator>\w+::[\w.]+) failed: the native operator has (?P<reason>no code for .*?)(?: at \w+: |$)", ""),
        (r"the storage offset of input", "storage offsets of inputs"),
        (r"\[WIR916\]", "graphs of `torch.compile`, which runs what torch.export refuses"),
        (r"^capture FE\d+", "torch.export refuses the case"),
    )
)  # fmt: skip
"""Patterns of errors, and the reason unless the pattern has it; the first match counts."""


def refusal_lines(errors: Mapping[str, str]) -> list[str]:
    """Returns a table of refusals. `errors` are those of cases by name."""
    cases: dict[tuple[str, str], list[str]] = {}
    for case, error in errors.items():
        for row in dict.fromkeys(_refusals(error)):
            cases.setdefault(row, []).append(case)
    lines = ["| operator | reason | cases |", "| --- | --- | --- |"]
    for (operator, reason), names in sorted(cases.items()):
        lines.append(f"| {operator} | {reason} | {_listed(names)} |")
    return lines


def _refusals(error: str) -> Iterator[tuple[str, str]]:
    """Yields operators with reasons; an error may name several operators."""
    if lacks := _LACKS.search(error):
        yield from ((f"`{name}`", "not in the runtime") for name in _NAME.findall(lacks[1]))
        return
    for pattern, words in _REASONS:
        if match := pattern.search(error):
            parts = match.groupdict()
            operator = parts.get("operator")
            yield f"`{operator}`" if operator else "", words or parts["reason"]
            return
    yield "", error.partition("] ")[2].partition(" func @")[0].replace("|", "\\|")[:120]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
