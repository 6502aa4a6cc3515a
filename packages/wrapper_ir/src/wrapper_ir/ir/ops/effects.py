"""What ops do: which bytes are read and written, which results share storage with which operands, what is moved, and
what happens beyond memory.

Verifier, planner, interpreter, debugger and emitters ask the op, and nobody else.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from wrapper_ir.ir.kernels.params import KernelAccess
from wrapper_ir.ir.schemas import ExternInfo
from wrapper_ir.ir.values import Value


class EffectClass(enum.Enum):
    """Effects beyond memory. An op with one is never removed; ops that share one keep their order."""

    RANDOM = "random"
    """Draws random numbers."""
    EFFECT = "effect"
    """Does something that only the operator itself knows."""
    HOST_IO = "host_io"
    """Reads or writes files, consoles, sockets."""
    COLLECTIVE = "collective"
    """Communicates with other processes."""
    ORDER = "order"
    """Stream and event order."""
    CHECK = "check"
    """May fail at run time."""
    STORAGE_CHANGE = "storage_change"
    """Resizes or replaces a storage, which is then never reused or planned."""


Pairs = tuple[tuple[Value, Value], ...]


class Effects(NamedTuple):
    """The effects of one op on values. A tuple of values may hold repetitions."""

    reads: tuple[Value, ...] = ()
    """Tensors whose elements are read."""
    writes: tuple[Value, ...] = ()
    """Tensors (or storages) whose elements are written."""
    fresh: tuple[Value, ...] = ()
    """Results with storage of their own."""
    aliases: Pairs = ()
    """(result, operand): share storage, surely."""
    may_alias: Pairs = ()
    """(result, operand): may share storage."""
    moves: tuple[Value, ...] = ()
    """Operands whose storage passes to a callee, a reuse or the caller; dead afterwards."""
    ends: tuple[Value, ...] = ()
    """Operands whose storage (Free) or name (Drop) ends."""
    classes: tuple[EffectClass, ...] = ()
    """Effects beyond memory."""
    holds: Pairs = ()
    """(result, operand): until the result is waited for, a collective goes on reading the operand, or writing it where
    it is among `writes`."""
    within: Pairs = ()
    """(result, operand): a storage with an end of its own, made of bytes of another."""


NO_EFFECTS = Effects()


@dataclass(frozen=True, slots=True)
class ResultOrigin:
    """Where the storage of one returned value comes from, as its caller sees it.

    `params` are positions of parameters (owned ones not among them: what was moved in comes back as the
    caller's), `constants` constants, `own` storages that the function hands over. `certain`: it is exactly one.
    """

    params: tuple[int, ...] = ()
    constants: tuple[Value, ...] = ()
    own: tuple[Value, ...] = ()
    certain: bool = True


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """What a call of a function may do: read, write and take over these parameters (by position), read and write these
    constants, effects beyond memory, and the origin of each returned tensor (None for others)."""

    read_params: frozenset[int] = frozenset()
    written_params: frozenset[int] = frozenset()
    owned_params: frozenset[int] = frozenset()
    read_constants: tuple[Value, ...] = ()
    written_constants: tuple[Value, ...] = ()
    classes: tuple[EffectClass, ...] = ()
    results: tuple[ResultOrigin | None, ...] = ()


class EffectContext(Protocol):
    """What an op may ask about the program around it; `wrapper_ir.analysis.memo.Analyses` answers."""

    def access(self, kernel: str) -> KernelAccess | None:
        """What the kernel of this name does through its parameters; None for an unknown one."""

    def operator(self, target: str) -> ExternInfo | None:
        """The declared operator of this name; None for an unknown one, or one whose schema cannot be read."""

    def summary(self, function: str) -> FunctionSummary:
        """What a call of the function of this name does; unknown and recursive ones count as doing nothing (the verifier
        refuses both)."""


Names = tuple[str, ...]
NamePairs = tuple[tuple[str, str], ...]


class EffectSpec(NamedTuple):
    """Effects in terms of an op's fields, joined by `|`: `reads("source") | may_alias("result", "source")`."""

    reads: Names = ()
    writes: Names = ()
    fresh: Names = ()
    aliases: NamePairs = ()
    may_alias: NamePairs = ()
    ends: Names = ()
    classes: tuple[EffectClass, ...] = ()
    within: NamePairs = ()

    def __or__(self, other: EffectSpec) -> EffectSpec:
        """Both."""
        return EffectSpec(*map(operator.add, self, other))

    def of(self, op: object) -> Effects:
        """The effects of one op."""
        return Effects(
            _held(op, self.reads) if self.reads else (),
            _held(op, self.writes) if self.writes else (),
            _held(op, self.fresh) if self.fresh else (),
            _pairs(op, self.aliases) if self.aliases else (),
            _pairs(op, self.may_alias) if self.may_alias else (),
            (),
            _held(op, self.ends) if self.ends else (),
            self.classes,
            (),
            _pairs(op, self.within) if self.within else (),
        )


def _held(op: object, fields: Iterable[str]) -> tuple[Value, ...]:
    """The values of these fields, each of which holds one, several, or None."""
    out: list[Value] = []
    for name in fields:
        held: Value | tuple[Value, ...] | None = getattr(op, name)  # a field that its own class names
        if isinstance(held, tuple):
            out += held
        elif held is not None:
            out.append(held)
    return tuple(out)


def _pairs(op: object, pairs: NamePairs) -> Pairs:
    return tuple([(r, s) for left, right in pairs for r in _held(op, (left,)) for s in _held(op, (right,))])


def reads(*fields: str) -> EffectSpec:
    """Reads the elements of these operands."""
    return EffectSpec(reads=fields)


def writes(*fields: str) -> EffectSpec:
    """Writes the elements of these operands."""
    return EffectSpec(writes=fields)


def fresh(*fields: str) -> EffectSpec:
    """These results have storage of their own."""
    return EffectSpec(fresh=fields)


def aliases(result: str, operand: str) -> EffectSpec:
    """The result has the operand's storage."""
    return EffectSpec(aliases=((result, operand),))


def may_alias(result: str, operand: str) -> EffectSpec:
    """The result may have the operand's storage."""
    return EffectSpec(may_alias=((result, operand),))


def ends(*fields: str) -> EffectSpec:
    """The storage or name of these operands ends."""
    return EffectSpec(ends=fields)


def within(result: str, operand: str) -> EffectSpec:
    """The result is a storage made of bytes of the operand's."""
    return EffectSpec(within=((result, operand),))


def has(*classes: EffectClass) -> EffectSpec:
    """Effects beyond memory."""
    return EffectSpec(classes=classes)
