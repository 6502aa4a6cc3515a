"""What the verifier can neither prove nor disprove: bounds that have to be checked when the program runs."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from wrapper_ir.expr import Expr, Int

Size = int | Expr


def as_size(e: Expr) -> Size:
    """An int for a constant, else the expression."""
    return e.value if isinstance(e, Int) else e


class Verdict(enum.Enum):
    """What is known about a claim: it holds for all sizes, for none, or only a run can tell."""

    PROVED = "proved"
    DISPROVED = "disproved"
    OPEN = "open"


class Side(enum.Enum):
    """An end of a symbol's declared range."""

    LOWER = "lower"
    UPPER = "upper"


@dataclass(frozen=True, slots=True)
class Claim:
    """One of `unless` is 0, or all inequalities `lhs <= rhs` of one of `either` hold."""

    either: tuple[tuple[tuple[Size, Size], ...], ...]
    unless: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Obligation:
    """An open bound: `condition`, over symbols that are defined before the op, has to hold for the op at `position`.
    `message` names op, value and sizes; `code` is the rule that a program breaks for which the condition fails."""

    function: str
    position: int
    condition: Expr
    message: str
    code: str


@dataclass(slots=True)
class Obligations:
    """All obligations of a program. `ranges` are the ends of declared ranges that proofs rest on, by symbol."""

    found: list[Obligation] = field(default_factory=list)
    ranges: dict[str, set[Side]] = field(default_factory=dict)
