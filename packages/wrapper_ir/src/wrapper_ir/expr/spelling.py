"""Spellings of operators: templates with precedence levels and conversions."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field


class Level(enum.IntEnum):
    """Precedence of a text; a higher level binds more tightly."""

    TERNARY = 0
    OR = 1
    AND = 2
    NOT = 3
    COMPARE = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    POWER = 8
    ATOM = 9


class Coercion(enum.Enum):
    """Conversion of an operand, in targets with explicit conversions."""

    NONE = ""
    OWN = "own"
    """The kind of the result."""
    COMMON = "common"
    """The widest kind among the operands."""
    COUNT = "count"
    """As COMMON, but int if all operands are bools."""
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"


@dataclass(frozen=True, slots=True)
class Slot:
    """Place of an operand in a spelling; index -1 means all operands, separated by commas."""

    index: int
    level: Level
    coercion: Coercion


_SLOT = re.compile(r"\{(\d|\*)(?::([a-z ]+))?\}")
_INFIX = re.compile(r"\{0[^}]*\}\s*([^\s{]+)\s*\{1[^}]*\}")
_WORDS: Mapping[str, Level] = {level.name.lower(): level for level in Level}
_COERCIONS: Mapping[str, Coercion] = {coercion.value: coercion for coercion in Coercion}


@dataclass(frozen=True, slots=True)
class Spelling:
    """Template of an operator: `{0:product}//{1:sign}` writes each operand at its level or tighter.

    A word before the level converts the operand (see `Coercion`). `{*}` means all operands, separated by
    commas. If an operator of many operands has a template for two, it is written pair by pair, from the left.
    """

    template: str
    level: Level = Level.ATOM
    """Precedence of the whole text."""
    slots: tuple[tuple[str, Slot], ...] = field(init=False, repr=False)
    """Places of operands, each with the text before it."""
    tail: str = field(init=False, repr=False)
    """Text after the last place."""
    takes_all: bool = field(init=False, repr=False)
    """True if one place takes all operands."""

    def __post_init__(self) -> None:
        slots: list[tuple[str, Slot]] = []
        end = 0
        for match in _SLOT.finditer(self.template):
            words = (match[2] or "ternary").split()
            coercion = next((_COERCIONS[word] for word in words if word in _COERCIONS), Coercion.NONE)
            level = next((_WORDS[word] for word in words if word in _WORDS), Level.TERNARY)
            slot = Slot(-1 if match[1] == "*" else int(match[1]), level, coercion)
            slots.append((self.template[end : match.start()], slot))
            end = match.end()
        object.__setattr__(self, "slots", tuple(slots))
        object.__setattr__(self, "tail", self.template[end:])
        object.__setattr__(self, "takes_all", any(slot.index < 0 for _, slot in slots))

    @property
    def infix(self) -> str | None:
        """Sign of an infix operator; None for other spellings."""
        match = _INFIX.fullmatch(self.template)
        return match[1] if match else None

    @property
    def between(self) -> str:
        """Text between the operands of an infix spelling, with its spaces."""
        return self.slots[1][0]
