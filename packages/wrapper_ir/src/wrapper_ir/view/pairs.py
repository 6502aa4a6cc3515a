"""Two programs as parts, line beside line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from wrapper_ir.diff import changed_kernels, declaration_lines, rename_by_position
from wrapper_ir.program import Function, Program
from wrapper_ir.quoting import value_name
from wrapper_ir.text import print_lines
from wrapper_ir.text.ops import op_text
from wrapper_ir.text.printer import type_printer

__all__ = ["LinePair", "ProgramPart", "pair_lines", "program_parts"]

_NAME = r'%(?:"(?:[^"\\]|\\.)*"|[\w.]+)'
_VALUE = re.compile(_NAME)
_PARAM = re.compile(rf"({_NAME}): ")
_RESULTS = re.compile(rf"(?:^  |; )({_NAME}(?:, {_NAME})*) = ")
"""The results of each op in a line."""


@dataclass(frozen=True, slots=True)
class ProgramPart:
    """A part of two programs, as lines to compare; a side that lacks it has none. `kind` is `declarations`, `kernel` or
    `func`, whose lines are as many as `print_lines` gives."""

    kind: str
    name: str
    old: list[str]
    new: list[str]


@dataclass(frozen=True, slots=True)
class LinePair:
    """Two lines beside each other, by their numbers from 0; -1 on the side that has none."""

    old: int
    new: int
    same: bool


def program_parts(old: Program, new: Program, *, names: bool = False) -> Iterator[ProgramPart]:
    """What `diff_programs` compares: the declarations and kernels where they differ, and all functions."""
    before, after = declaration_lines(old), declaration_lines(new)
    if before != after:
        yield ProgramPart("declarations", "", before, after)
    for name, sides in changed_kernels(old, new).items():
        yield ProgramPart("kernel", name, *sides)
    left, right = ({f.name: f for f in program.functions} for program in (old, new))
    for name in dict.fromkeys((*left, *right)):
        yield ProgramPart(
            "func", name, _lines(left.get(name), old, names), _lines(right.get(name), new, names)
        )


def _lines(function: Function | None, program: Program, names: bool) -> list[str]:
    """The lines of a function, with values named by position, unless `names`."""
    if function is None:
        return []
    lines = print_lines(function, program)
    if names:
        return [line.text for line in lines]
    renamed, types = rename_by_position(function, program), type_printer(program)
    params = {
        f"%{value_name(a.value.name)}": f"%{value_name(b.value.name)}"
        for a, b in zip(function.params, renamed.params, strict=True)
    }
    found = []
    for line in lines:
        ops = [op_text(op, types) for op in renamed.body[line.first : line.stop]]
        found.append(
            f"  {'; '.join(ops)}" if ops else _VALUE.sub(lambda m: params.get(m[0], m[0]), line.text)
        )
    return found


def pair_lines(part: ProgramPart, *, names: bool = False) -> tuple[LinePair, ...]:
    """All lines of both sides in order, matched as `wir diff` matches lines; those of a block that differs stand beside each
    other where they begin with the same word.

    Lines of a function are matched with each value told by the text of the line that defines it, and are the same where those
    lines stand beside each other: what the new program defines in between makes no line after it differ, as it does in the
    text of `wir diff`. With `names`, values are the same where their names are.
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
    """The first word of each line, results left out: what op it is."""
    return [_RESULTS.sub("  ", line).split(maxsplit=1)[0] if line.strip() else "" for line in lines]


def _with_labels(lines: Sequence[str], labels: dict[tuple[str, int], str]) -> list[str]:
    """The lines with a label in place of each value that they define: one for each text of a definition, its own values left
    out, and each of its results. Constants stay."""
    inside = {name: "%" for line in lines for name in _defined(line)}
    found: dict[str, str] = {}
    for line in lines:
        for number, name in enumerate(_defined(line)):
            text = _VALUE.sub(lambda m: inside.get(m[0], m[0]), line)
            found[name] = labels.setdefault((text, number), f"%{len(labels)}")
    return [_VALUE.sub(lambda m: found.get(m[0], m[0]), line) for line in lines]


def _by_definition(part: ProgramPart, pairs: Iterable[LinePair]) -> Iterator[LinePair]:
    """The pairs, of which those are the same whose values are, too."""
    inside = {name for line in part.old for name in _defined(line)}
    known: dict[str, str] = {}
    """The value of the new program for each of the old one."""
    for pair in pairs:
        if pair.old < 0 or pair.new < 0:
            yield pair
            continue
        old, new = part.old[pair.old], part.new[pair.new]
        known.update(zip(_defined(old), _defined(new), strict=False))
        values = zip(_VALUE.findall(old), _VALUE.findall(new), strict=False)
        alike = _VALUE.sub("%", old) == _VALUE.sub("%", new)
        yield replace(
            pair, same=alike and all(known.get(a, "" if a in inside else a) == b for a, b in values)
        )


def _defined(line: str) -> list[str]:
    """The values that a line of a function defines: those before a `=`, or the parameters of the header."""
    if line.startswith(("func ", "    %")):
        return _PARAM.findall(line)
    return [v for found in _RESULTS.finditer(line) for v in _VALUE.findall(found[1])]
