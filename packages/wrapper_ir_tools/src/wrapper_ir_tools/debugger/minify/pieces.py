"""Parts of the programs to shrink: of one, or of two that are cut at the same ops."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import replace

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import DebugError, ExecutionError, VerificationError
from wrapper_ir.text import print_op
from wrapper_ir_tools.debugger.minify.stubs import replaceable, stubbed
from wrapper_ir_tools.debugger.replay import OpRange, replay_piece
from wrapper_ir_tools.debugger.subject import Subject

Programs = tuple[Artifact, ...]
"""One program, or the two that a check compares."""
_CONTENT = ".content"


class Pieces:
    """Cuts parts out of one subject, or out of two alike.

    A row is an op of `main`. For two programs, it is an op that both have with the same text, so that both
    are cut at the same point. The pieces of both start from the values of the first.
    """

    def __init__(self, *subjects: Subject) -> None:
        self.subjects = subjects
        self.rows = _rows([s.program.main for s in subjects])
        both = [{v.name for v in ir.definitions(s.program.main)} for s in subjects]
        self._shared_names = both[0].intersection(*both[1:])

    @property
    def last(self) -> int:
        """The last row, which is the end of every program."""
        return len(self.rows) - 1

    def between(self, first: int, last: int) -> Programs | None:
        """Extracts the ops of each program from one row to another.

        Returns None if a file cannot store their inputs, or if the two would start from different values.
        """
        begins = self.rows[first] if first else (0,) * len(self.subjects)
        pieces = []
        for subject, begin, end in zip(self.subjects, begins, self.rows[last], strict=True):
            try:
                pieces.append(replay_piece(subject, OpRange(first=begin, last=end)))
            except (DebugError, ExecutionError, VerificationError):
                return None
        return self._started_alike(pieces)

    def replaceable(self) -> list[int]:
        """Rows whose ops can be replaced by copies in each program."""
        positions = [set(replaceable(s.program, s.analyses)) for s in self.subjects]
        return [n for n, row in enumerate(self.rows) if all(p in s for p, s in zip(row, positions))]

    def stubbed(self, rows: Collection[int]) -> Programs | None:
        """Replaces the ops of these rows by copies of the values that the first program computed."""
        positions = [[self.rows[n][side] for n in rows] for side in range(len(self.subjects))]
        return self._started_alike([stubbed(s, w) for s, w in zip(self.subjects, positions, strict=True)])

    def _started_alike(self, pieces: Sequence[Artifact]) -> Programs | None:
        """Gives the second piece the contents of the first.

        Returns None if one starts from a value that the other program lacks: the op that computes it belongs
        to the failure.
        """
        if len(pieces) == 1:
            return tuple(pieces)
        names = [_contents(artifact, s.artifact) for artifact, s in zip(pieces, self.subjects, strict=True)]
        one_sided = (name.removesuffix(_CONTENT) for name in names[0] ^ names[1])
        if any(not {n, n.removesuffix(".s")} & self._shared_names for n in one_sided):
            return None
        first, second = pieces
        contents = {name: first.constants[name] for name in names[0] & names[1]}
        if any(second.constants[name].nbytes != data.nbytes for name, data in contents.items()):
            return None
        constants = tuple(
            replace(c, data_hash=contents[c.value.name].sha256()) if c.value.name in contents else c
            for c in second.program.constants
        )
        program = replace(second.program, constants=constants)
        return first, replace(second, program=program, constants={**second.constants, **contents})


def _contents(piece: Artifact, whole: Artifact) -> set[str]:
    """Names of the constants that were created for the piece."""
    return set(piece.constants) - {c.data_name for c in whole.program.constants}


def _rows(mains: Sequence[ir.Function]) -> list[tuple[int, ...]]:
    """Positions of the ops that all programs share, in order, always with the last ones."""
    if len(mains) == 1:
        return [(position,) for position in range(len(mains[0].body))]
    first, second = ([print_op(op) for op in main.body[:-1]] for main in mains)
    blocks = difflib.SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    ends = tuple(len(main.body) - 1 for main in mains)
    return [*((b.a + n, b.b + n) for b in blocks for n in range(b.size)), ends]
