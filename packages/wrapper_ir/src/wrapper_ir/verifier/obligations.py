"""Bounds that the verifier can neither prove nor disprove, so that they must be checked at run time."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from wrapper_ir.expr import Expr

Size = int | Expr


def as_size(e: Expr) -> Size:
    """An int for a constant, else the expression."""
    return e if e.integer is None else e.integer


def as_numbers(*sizes: Size) -> tuple[int, ...] | None:
    """The sizes as ints; None if one is not a constant."""
    for size in sizes:
        if size.__class__ is not int:
            return None
    return sizes  # type: ignore[return-value]  # all are ints, by the loop


class Verdict(enum.Enum):
    """The state of a claim: it holds for all sizes, for none, or depends on the sizes at run time."""

    PROVED = "proved"
    DISPROVED = "disproved"
    OPEN = "open"


class Side(enum.Enum):
    """An end of a symbol's declared range."""

    LOWER = "lower"
    UPPER = "upper"


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim that one of `unless` is 0, or that all inequalities `lhs <= rhs` of one of `either` hold."""

    either: tuple[tuple[tuple[Size, Size], ...], ...]
    unless: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Obligation:
    """An open bound: `condition` must hold for the op at `position`; its symbols are defined before the op.

    `message` names op, value and sizes. `code` is the rule that is broken if the condition fails.
    """

    function: str
    position: int
    condition: Expr
    message: str
    code: str


@dataclass(slots=True)
class Obligations:
    """All obligations of a program. `ranges` are the ends of declared ranges that proofs depend on, by
    symbol."""

    found: list[Obligation] = field(default_factory=list)
    ranges: dict[str, set[Side]] = field(default_factory=dict)
