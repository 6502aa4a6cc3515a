"""How operators are written: a template for each target, and how tightly texts hold together."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field


class Level(enum.IntEnum):
    """How tightly a text holds together."""

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
    """What an operand is converted to where the target has conversions of its own."""

    NONE = ""
    OWN = "own"
    """The kind of the result."""
    COMMON = "common"
    """The widest kind among the operands."""
    COUNT = "count"
    """The same, but an int where all operands are truth values."""
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"


@dataclass(frozen=True, slots=True)
class Slot:
    """An operand's place in a spelling; index -1 stands for all operands, separated by commas."""

    index: int
    level: Level
    coercion: Coercion


_SLOT = re.compile(r"\{(\d|\*)(?::([a-z ]+))?\}")
_INFIX = re.compile(r"\{0[^}]*\}\s*([^\s{]+)\s*\{1[^}]*\}")
_WORDS: Mapping[str, Level] = {level.name.lower(): level for level in Level}
_COERCIONS: Mapping[str, Coercion] = {coercion.value: coercion for coercion in Coercion}


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a target writes an operator: `{0:product}//{1:sign}` writes each operand at least as tight as the level.

    A word before the level converts the operand (see `Coercion`). `{*}` are all operands with commas between them; an
    operator of many operands whose spelling has two of them is written pair by pair, from the left.
    """

    template: str
    level: Level = Level.ATOM
    """How tightly the whole holds together."""
    slots: tuple[tuple[str, Slot], ...] = field(init=False, repr=False)
    """The operands' places, each with the text before it."""
    tail: str = field(init=False, repr=False)
    """The text after the last of them."""
    takes_all: bool = field(init=False, repr=False)
    """Whether it has a place for all operands."""

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
        """The sign between two operands, if that is what the spelling is."""
        found = _INFIX.fullmatch(self.template)
        return found[1] if found else None

    @property
    def between(self) -> str:
        """The text between the operands of an infix spelling, with its spaces."""
        return self.slots[1][0]
