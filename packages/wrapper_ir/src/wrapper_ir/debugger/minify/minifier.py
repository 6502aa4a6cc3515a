"""Shrinks a failing program, step by step; each step is kept if the program is valid and still fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wrapper_ir import ops
from wrapper_ir.artifact import Artifact, TensorData
from wrapper_ir.debugger.minify.checks import Check
from wrapper_ir.debugger.minify.search import smallest, smallest_set
from wrapper_ir.debugger.minify.stubs import rebuilt, replaceable, stubbed
from wrapper_ir.debugger.replay import OpRange, replay_piece
from wrapper_ir.debugger.subject import InputChoice, Subject
from wrapper_ir.errors import DebugError, ExecutionError, VerificationError
from wrapper_ir.interp.inputs import symbol_values
from wrapper_ir.verifier import verify

__all__ = ["Minified", "minify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Minified:
    """The small program, which takes no inputs, and how many ops of `main` there were and are, after how many tries."""

    artifact: Artifact
    before: int
    after: int
    tries: int


def minify(subject: Subject, check: Check) -> Minified:
    """Shrinks what the subject runs: sizes that are symbols, ops after and before the failure, ops that copies of what they
    computed can stand for, results, and the content of constants. Raises DebugError WIR962 for a program that does not fail."""
    return _Minifier(subject, check).run()


class _Minifier:
    def __init__(self, subject: Subject, check: Check) -> None:
        self.subject = subject
        self.check = check
        self.tries = 0
        self.options = subject.interpreter.options

    def run(self) -> Minified:
        """See `minify`."""
        before = len(self.subject.program.main.body)
        whole = self._piece(self.subject, 0, before - 1)
        if whole is None or not self._fails(whole):
            raise DebugError(
                "WIR962",
                f"the program does not fail: there is no sign that {self.check.text}",
                hint="give the inputs with which it does",
            )
        smaller = self._small_symbols()
        found = self._cut(smaller)
        for step in (self._stub, self._results, self._contents):
            found = step(found)
        return Minified(artifact=found, before=before, after=len(found.program.main.body), tries=self.tries)

    # --- candidates

    def _fails(self, candidate: Artifact) -> bool:
        """Whether a candidate is valid and still fails."""
        self.tries += 1
        try:
            verify(candidate)
        except VerificationError:
            return False
        return self.check.fails(candidate)

    def _of(self, artifact: Artifact) -> Subject:
        return Subject(artifact, self.subject.machine, options=self.options)

    def _piece(self, subject: Subject, first: int, last: int) -> Artifact | None:
        """The ops of a range alone; None where a file cannot hold what they need."""
        try:
            return replay_piece(subject, OpRange(first=first, last=last))
        except (DebugError, ExecutionError, VerificationError):
            return None

    def _piece_fails(self, subject: Subject, first: int, last: int) -> bool:
        piece = self._piece(subject, first, last)
        return piece is not None and self._fails(piece)

    # --- steps

    def _small_symbols(self) -> Subject:
        """The same program on smaller inputs, symbol by symbol."""
        subject, choice = self.subject, self.subject.inputs
        if choice.given is not None or choice.file is not None:
            return subject
        values = symbol_values(subject.program, choice.symbols)
        for symbol in subject.program.symbols:
            if not symbol.backed:
                continue
            low = max(symbol.lower or 0, 1)
            for value in sorted({low, 2, 3} - set(range(low))):
                if value >= values[symbol.name]:
                    break
                smaller = InputChoice(seed=choice.seed, symbols={**choice.symbols, symbol.name: value})
                other = Subject(self.subject.artifact, subject.machine, smaller, self.options)
                if self._piece_fails(other, 0, len(other.program.main.body) - 1):
                    subject, choice = other, smaller
                    break
        return subject

    def _cut(self, subject: Subject) -> Artifact:
        """Without the ops after the failure, and without those before, whose results become constants."""
        end = len(subject.program.main.body) - 1
        last = smallest(0, end, lambda at: self._piece_fails(subject, 0, at))
        # from the last op backwards: how many ops it takes
        count = smallest(0, last, lambda n: self._piece_fails(subject, last - n, last))
        piece = self._piece(subject, last - count, last)
        assert piece is not None  # it failed
        return piece

    def _stub(self, artifact: Artifact) -> Artifact:
        """With copies of what they computed in place of as many ops as can be."""
        subject = self._of(artifact)
        every = replaceable(subject.program, subject.analyses)

        def without(kept: Sequence[int]) -> Artifact:
            return stubbed(subject, [p for p in every if p not in kept])

        kept = smallest_set(every, lambda kept: self._fails(without(kept)))
        smaller = without(kept)
        return smaller if len(kept) < len(every) or self._fails(smaller) else artifact

    def _results(self, artifact: Artifact) -> Artifact:
        """With as few results as can be."""
        main = artifact.program.main
        returned = main.returns

        def only(kept: Sequence[int]) -> Artifact:
            values = tuple(v for i, v in enumerate(returned.values) if i in kept)
            body = (*main.body[:-1], ops.Return(values=values, prov=returned.prov))
            program = artifact.program.with_functions((main.with_body(body), *artifact.program.functions[1:]))
            return rebuilt(artifact, program, {})

        every = range(len(returned.values))
        kept = smallest_set(every, lambda kept: self._fails(only(kept)))
        return only(kept) if len(kept) < len(every) else artifact

    def _contents(self, artifact: Artifact) -> Artifact:
        """With zeros in as many constants as can be."""
        names = [n for n, d in artifact.constants.items() if any(d.buffer.cast("B"))]

        def zeroed(kept: Sequence[str]) -> Artifact:
            data = {
                n: d if n in kept or n not in names else TensorData(d.dtype, memoryview(bytes(d.nbytes)))
                for n, d in artifact.constants.items()
            }
            constants = tuple(
                replace(c, data_hash=data[c.data_name].sha256()) if c.data_hash else c
                for c in artifact.program.constants
            )
            return replace(artifact, program=replace(artifact.program, constants=constants), constants=data)

        kept = smallest_set(names, lambda kept: self._fails(zeroed(kept)))
        return zeroed(kept) if len(kept) < len(names) else artifact
