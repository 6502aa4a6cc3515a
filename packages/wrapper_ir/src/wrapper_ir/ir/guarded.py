"""Facts about inputs that the caller guarantees for each call, so that no engine checks them again."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.ir.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """`params` names parameters of `main` whose arguments match their types: class, dtype, device, sizes and
    strides. `symbols` names symbols whose values are in their declared ranges.

    A call that breaks the guarantee may access memory out of bounds without an error. Dynamo guards the
    inputs of a forward graph, so `torch.compile` with the backend `wrapper_ir` declares them guarded.
    """

    params: frozenset[str] = frozenset()
    symbols: frozenset[str] = frozenset()

    @staticmethod
    def all_inputs(program: Program) -> Guarded:
        """All parameters of `main`, and the symbols that inputs back."""
        return Guarded(
            params=frozenset(p.value.name for p in program.main.params),
            symbols=frozenset(s.name for s in program.symbols if s.backed),
        )

    def __or__(self, other: Guarded) -> Guarded:
        """The union of both guarantees."""
        return Guarded(params=self.params | other.params, symbols=self.symbols | other.symbols)


NOT_GUARDED = Guarded()
"""No guarantee: each call checks its arguments."""
