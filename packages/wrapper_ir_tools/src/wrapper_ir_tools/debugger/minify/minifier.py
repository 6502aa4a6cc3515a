"""Shrinks a failing program step by step. A step is kept if the program is valid and still fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import DebugError, VerificationError
from wrapper_ir.verifier import verify
from wrapper_ir_runtime.interp.inputs import symbol_values
from wrapper_ir_tools.debugger.minify.checks import Check
from wrapper_ir_tools.debugger.minify.pieces import Pieces, Programs
from wrapper_ir_tools.debugger.minify.remainder import label, returning, zeroed_content
from wrapper_ir_tools.debugger.minify.search import smallest, smallest_set
from wrapper_ir_tools.debugger.minify.sizes import Resizing, number_sizes, smaller_sizes
from wrapper_ir_tools.debugger.subject import InputChoice, Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Minified:
    """The shrunk program, which takes no inputs, and how it was found.

    `before` and `after` count the ops of `main`; `tries` counts the candidates. `second` is the other program
    of a comparison. `notes` say what could not be shrunk, and why.
    """

    artifact: Artifact
    before: int
    after: int
    tries: int
    second: Artifact | None = None
    notes: tuple[str, ...] = ()


def minify(subject: Subject, check: Check, second: Subject | None = None) -> Minified:
    """Shrinks the subject's program: sizes, ops, results, and the contents of constants.

    Ops before and after the failure are removed; others are replaced by copies of the values that they
    computed. If the check compares two programs, both shrink alike. Raises VerificationError for an invalid
    program, DebugError WIR962 for one that does not fail, WIR963 for two programs that cannot be shrunk
    alike.
    """
    if second is not None:
        _require_alike(subject, second)
    return _Minifier(subject, check, second).run()


def _require_alike(first: Subject, second: Subject) -> None:
    """Requires that both programs take the same inputs and use the same names."""
    params = [tuple(p.value for p in s.program.main.params) for s in (first, second)]
    symbols = [s.program.symbols for s in (first, second)]
    if params[0] != params[1] or symbols[0] != symbols[1]:
        raise DebugError(
            "WIR963",
            "the two programs take different inputs, so they cannot be shrunk alike",
            hint="capture both with the same arguments",
        )
    if Pieces(first, second).last == 0:
        raise DebugError(
            "WIR963",
            "the two programs have no op in common at which both could be cut",
            hint=(
                "compare programs whose values have the same names, or shrink one with `--compare` and "
                "an engine"
            ),
        )


class _Minifier:
    def __init__(self, subject: Subject, check: Check, second: Subject | None) -> None:
        self.subjects: tuple[Subject, ...] = (subject,) if second is None else (subject, second)
        self.check = check
        self.tries = 0
        self.machine, self.options = subject.machine, subject.interpreter.options
        self.notes: list[str] = []

    def run(self) -> Minified:
        """See `minify`."""
        for subject in self.subjects:
            verify(subject.artifact)
        whole = Pieces(*self.subjects)
        if not self._fails(whole.between(0, whole.last)):
            raise DebugError(
                "WIR962",
                f"the program does not fail: there is no sign that {self.check.text}",
                hint="give the inputs with which it does",
            )
        programs = self._cut(Pieces(*self._small_symbols()))
        steps = [self._stub, self._results]
        if self.check.inputs_are_fixed:
            self.notes.append("sizes and contents stay as they are: the model's values belong to them")
        else:
            steps += [self._sizes, self._contents]
        for step in steps:
            programs = step(programs)
        return Minified(
            artifact=programs[0],
            second=programs[1] if len(programs) > 1 else None,
            before=len(self.subjects[0].program.main.body),
            after=len(programs[0].program.main.body),
            tries=self.tries,
            notes=tuple(self.notes),
        )

    # --- candidates

    def _fails(self, candidate: Programs | None) -> bool:
        """True if a candidate is valid and still fails."""
        if candidate is None:
            return False
        self.tries += 1
        try:
            for artifact in candidate:
                verify(artifact)
        except VerificationError:
            return False
        return self.check.fails(*candidate)

    def _of(self, programs: Programs, inputs: InputChoice | None = None) -> tuple[Subject, ...]:
        first = Subject(programs[0], self.machine, inputs, self.options)
        others = [Subject(p, self.machine, inputs, self.options, first.draws) for p in programs[1:]]
        return (first, *others)

    # --- steps

    def _small_symbols(self) -> tuple[Subject, ...]:
        """Returns the same programs with smaller inputs, symbol by symbol."""
        subjects, choice = self.subjects, self.subjects[0].inputs
        if choice.values is not None or choice.file is not None:
            return subjects
        program, artifacts = subjects[0].program, tuple(s.artifact for s in subjects)
        values = symbol_values(program, choice.symbols)
        for symbol in program.symbols:
            if not symbol.backed:
                continue
            low = max(symbol.lower or 0, 1)
            for value in sorted({low, 2, 3} - set(range(low))):
                if value >= values[symbol.name]:
                    break
                smaller = InputChoice(seed=choice.seed, symbols={**choice.symbols, symbol.name: value})
                others = self._of(artifacts, smaller)
                pieces = Pieces(*others)
                if self._fails(pieces.between(0, pieces.last)):
                    subjects, choice = others, smaller
                    break
        return subjects

    def _cut(self, pieces: Pieces) -> Programs:
        """Removes the ops after the failure, and those before it, whose results become constants."""
        last = smallest(0, pieces.last, lambda at: self._fails(pieces.between(0, at)))
        # count ops backwards from the last one
        count = smallest(0, last, lambda n: self._fails(pieces.between(last - n, last)))
        programs = pieces.between(last - count, last)
        # this range failed
        assert programs is not None
        return programs

    def _stub(self, programs: Programs) -> Programs:
        """Replaces as many ops as possible by copies of the values that they computed."""
        pieces = Pieces(*self._of(programs))
        every = pieces.replaceable()

        def without(kept_rows: Sequence[int]) -> Programs | None:
            return pieces.stubbed([n for n in every if n not in kept_rows])

        required = smallest_set(every, lambda required: self._fails(without(required)))
        smaller = without(required)
        return (
            smaller
            if smaller is not None and (len(required) < len(every) or self._fails(smaller))
            else programs
        )

    def _results(self, programs: Programs) -> Programs:
        """Returns as few results as possible."""

        def only(labels: Sequence[str]) -> Programs:
            return tuple(returning(artifact, labels) for artifact in programs)

        every = list(dict.fromkeys(map(label, programs[0].program.main.returns.values)))
        required = smallest_set(every, lambda required: self._fails(only(required)))
        return only(required) if len(required) < len(every) else programs

    def _sizes(self, programs: Programs) -> Programs:
        """Replaces constant sizes by smaller ones, from the largest on."""
        resizing = Resizing()
        for size in number_sizes(programs):
            for small in smaller_sizes(size):
                smaller = next(filter(self._fails, resizing.candidates(programs, size, small)), None)
                if smaller is not None:
                    programs = smaller
                    break
        self.notes += resizing.notes(programs)
        return programs

    def _contents(self, programs: Programs) -> Programs:
        """Fills as many constants as possible with zeros."""
        names = [n for n, d in programs[0].constants.items() if any(d.buffer.cast("B"))]

        def zeroed(names_with_content: Sequence[str]) -> Programs:
            return tuple(
                zeroed_content(artifact, set(names) - set(names_with_content)) for artifact in programs
            )

        required = smallest_set(names, lambda required: self._fails(zeroed(required)))
        return zeroed(required) if len(required) < len(names) else programs
