"""Aligns the lines of a part of two programs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from wrapper_ir_tools.diff.parts import NAME, VALUE, ProgramPart

_PARAM = re.compile(rf"({NAME}): ")
_RESULTS = re.compile(rf"(?:^  |; )({NAME}(?:, {NAME})*) = ")
"""The results of each op in a line."""


@dataclass(frozen=True, slots=True)
class LinePair:
    """Two aligned lines: their numbers from 0, or -1 on a side without a line."""

    old: int
    new: int
    same: bool


def pair_lines(part: ProgramPart, *, names: bool = False) -> tuple[LinePair, ...]:
    """Aligns all lines of both sides in order; lines of a differing block align if their first words are
    equal.

    In a function, a value is identified by the text of the line that defines it. Lines are the same if their
    values are defined by aligned lines: an insertion does not change the lines after it. With `names`, values
    are the same if their names are.
    """
    if names or part.kind != "func":
        return tuple(_matched(part.old, part.new))
    labels: dict[tuple[str, int], str] = {}
    old, new = (_with_labels(lines, labels) for lines in (part.old, part.new))
    return tuple(_by_definition(part, _matched(old, new)))


def _matched(old: Sequence[str], new: Sequence[str]) -> Iterator[LinePair]:
    for tag, i, i_end, j, j_end in _blocks(old, new):
        if tag == "equal":
            yield from (LinePair(i + n, j + n, True) for n in range(i_end - i))
            continue
        for kind, k, k_end, m, m_end in _blocks(_words(old[i:i_end]), _words(new[j:j_end])):
            if kind == "equal":
                yield from (LinePair(i + k + n, j + m + n, False) for n in range(k_end - k))
            else:
                yield from (LinePair(i + n, -1, False) for n in range(k, k_end))
                yield from (LinePair(-1, j + n, False) for n in range(m, m_end))


def _blocks(old: Sequence[str], new: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    return difflib.SequenceMatcher(None, old, new).get_opcodes()


def _words(lines: Sequence[str]) -> list[str]:
    """The first word of each line without results, which names the op."""
    return [_RESULTS.sub("  ", line).split(maxsplit=1)[0] if line.strip() else "" for line in lines]


def _with_labels(lines: Sequence[str], labels: dict[tuple[str, int], str]) -> list[str]:
    """Replaces each value that the lines define by a label.

    A label stands for the text of a definition, without its own values, and the number of the result.
    Constants stay.
    """
    inside = {name: "%" for line in lines for name in _defined(line)}
    replacements: dict[str, str] = {}
    for line in lines:
        text = VALUE.sub(lambda m: inside.get(m[0], m[0]), line)
        for number, name in enumerate(_defined(line)):
            replacements[name] = labels.setdefault((text, number), f"%{len(labels)}")
    return [VALUE.sub(lambda m: replacements.get(m[0], m[0]), line) for line in lines]


def _by_definition(part: ProgramPart, pairs: Iterable[LinePair]) -> Iterator[LinePair]:
    """Marks the pairs as different whose values differ."""
    inside = {name for line in part.old for name in _defined(line)}
    counterparts: dict[str, str] = {}
    """The value of the new program for each of the old one."""
    for pair in pairs:
        if pair.old < 0 or pair.new < 0:
            yield pair
            continue
        old, new = part.old[pair.old], part.new[pair.new]
        counterparts.update(zip(_defined(old), _defined(new), strict=False))
        values = zip(VALUE.findall(old), VALUE.findall(new), strict=False)
        alike = VALUE.sub("%", old) == VALUE.sub("%", new)
        yield replace(
            pair, same=alike and all(counterparts.get(a, "" if a in inside else a) == b for a, b in values)
        )


def _defined(line: str) -> list[str]:
    """The values that a line of a function defines: its results, or the parameters of the header."""
    if line.startswith(("func ", "    %")):
        return _PARAM.findall(line)
    return [v for match in _RESULTS.finditer(line) for v in VALUE.findall(match[1])]
