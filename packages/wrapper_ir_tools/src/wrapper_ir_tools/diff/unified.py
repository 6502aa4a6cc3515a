"""Prints a unified diff of two programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.support.quoting import printable
from wrapper_ir.text import print_lines
from wrapper_ir_tools.diff.pairs import LinePair, pair_lines
from wrapper_ir_tools.diff.parts import ProgramPart, program_parts


def diff_programs(old: ir.Program, new: ir.Program, *, context: int = 3, names: bool = False) -> str:
    """Returns a unified diff, empty for equal programs; provenance is ignored.

    Values are printed with the names of that program. Names are compared only with `names`.
    """
    lines: list[str] = []
    for part in program_parts(old, new, names=names):
        changes = list(_changes(part, _shown(part, old, new), names))
        if any(change.mark != " " for change in changes):
            title = f"{part.kind} @{printable(part.name)}" if part.name else part.kind
            lines += [f"--- old {title}", f"+++ new {title}", *_hunks(changes, context)]
    return "\n".join(lines)


def _shown(part: ProgramPart, old: ir.Program, new: ir.Program) -> tuple[Sequence[str], Sequence[str]]:
    """The lines of both sides in the text form."""
    if part.kind != "func":
        return part.old, part.new
    before, after = (
        [line.text for f in program.functions if f.name == part.name for line in print_lines(f, program)]
        for program in (old, new)
    )
    return before, after


@dataclass(frozen=True, slots=True)
class _Change:
    """A line of the diff, and the number from 1 of the next line of each side."""

    mark: str
    text: str
    old: int
    new: int


def _changes(part: ProgramPart, texts: tuple[Sequence[str], Sequence[str]], names: bool) -> Iterator[_Change]:
    """Yields all lines; of a block that differs, the old ones before the new ones."""
    old, new = 0, 0
    block: list[LinePair] = []
    for pair in (*pair_lines(part, names=names), None):
        if pair is not None and not pair.same:
            block.append(pair)
            continue
        for other in (p.old for p in block if p.old >= 0):
            yield _Change("-", texts[0][other], old := other + 1, new)
        for other in (p.new for p in block if p.new >= 0):
            yield _Change("+", texts[1][other], old, new := other + 1)
        block.clear()
        if pair is not None:
            yield _Change(" ", texts[0][pair.old], old := pair.old + 1, new := pair.new + 1)


def _hunks(changes: Sequence[_Change], context: int) -> Iterator[str]:
    """Yields the lines that differ and their context; each group follows a line with its position."""
    positions = [i for i, change in enumerate(changes) if change.mark != " "]
    begin = 0
    while begin < len(positions):
        end = begin
        while end + 1 < len(positions) and positions[end + 1] - positions[end] <= 2 * context + 1:
            end += 1
        group = changes[max(positions[begin] - context, 0) : positions[end] + context + 1]
        sides = (
            _side([c.old for c in group if c.mark != "+"], group[0].old),
            _side([c.new for c in group if c.mark != "-"], group[0].new),
        )
        yield f"@@ -{sides[0]} +{sides[1]} @@"
        yield from (f"{change.mark}{change.text}" for change in group)
        begin = end + 1


def _side(lines: Sequence[int], before: int) -> str:
    """Formats the range of one side: the first line, and the count unless it is one."""
    if len(lines) == 1:
        return str(lines[0])
    return f"{lines[0]},{len(lines)}" if lines else f"{before},0"
