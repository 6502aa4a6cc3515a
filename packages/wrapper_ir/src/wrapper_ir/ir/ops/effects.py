"""Effects of ops: reads, writes, aliasing of results and operands, moves, and effects beyond memory.

The op is the only source of its effects, for the verifier, planner, interpreter, debugger and emitters alike.
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
    """Has side effects that the IR does not describe."""
    HOST_IO = "host_io"
    """Reads or writes files, consoles or sockets."""
    COLLECTIVE = "collective"
    """Communicates with other processes."""
    ORDER = "order"
    """Orders streams, events or scopes."""
    CHECK = "check"
    """May fail at run time."""
    STORAGE_CHANGE = "storage_change"
    """Resizes or replaces a storage, which is therefore never reused or planned."""


Pairs = tuple[tuple[Value, Value], ...]


class Effects(NamedTuple):
    """The effects of one op on values. A tuple of values may contain repetitions."""

    reads: tuple[Value, ...] = ()
    """Tensors whose elements are read."""
    writes: tuple[Value, ...] = ()
    """Tensors (or storages) whose elements are written."""
    fresh: tuple[Value, ...] = ()
    """Results with a new storage."""
    aliases: Pairs = ()
    """(result, operand) that always share storage."""
    may_alias: Pairs = ()
    """(result, operand) that may share storage."""
    moves: tuple[Value, ...] = ()
    """Operands whose storage passes to a callee, a reuse or the caller; dead after the op."""
    ends: tuple[Value, ...] = ()
    """Operands whose storage (Free) or name (Drop) ends."""
    classes: tuple[EffectClass, ...] = ()
    """Effects beyond memory."""
    holds: Pairs = ()
    """(result, operand): until the wait for the result, a collective reads the operand, or writes it if it is
    in `writes`."""
    within: Pairs = ()
    """(result, operand): a storage with its own lifetime inside the bytes of another."""


NO_EFFECTS = Effects()


@dataclass(frozen=True, slots=True)
class ResultOrigin:
    """Possible origins of the storage of one returned value, as its caller sees it.

    `params` are positions of borrowed parameters. A storage that was moved into the function is returned as a
    new one. `own` are storages that the function moves to its caller. `certain`: there is exactly one origin.
    """

    params: tuple[int, ...] = ()
    constants: tuple[Value, ...] = ()
    own: tuple[Value, ...] = ()
    certain: bool = True


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """Effects that a call of a function may have.

    Parameters are given by position. `results` has the origin of each returned tensor, None for other values.
    """

    read_params: frozenset[int] = frozenset()
    written_params: frozenset[int] = frozenset()
    owned_params: frozenset[int] = frozenset()
    read_constants: tuple[Value, ...] = ()
    written_constants: tuple[Value, ...] = ()
    classes: tuple[EffectClass, ...] = ()
    results: tuple[ResultOrigin | None, ...] = ()


class EffectContext(Protocol):
    """Facts about the program that effects depend on; implemented by `wrapper_ir.analysis.memo.Analyses`."""

    def access(self, kernel: str) -> KernelAccess | None:
        """Returns the accesses of a kernel through its parameters; None for an unknown kernel."""

    def operator(self, target: str) -> ExternInfo | None:
        """Returns a declared operator; None for an unknown operator or an unreadable schema."""

    def summary(self, function: str) -> FunctionSummary:
        """Returns a function's summary, empty for unknown and recursive ones, which the verifier refuses."""


Names = tuple[str, ...]
NamePairs = tuple[tuple[str, str], ...]


class EffectSpec(NamedTuple):
    """Effects in terms of an op's fields, joined by `|`:
    `reads("source") | may_alias("result", "source")`."""

    reads: Names = ()
    writes: Names = ()
    fresh: Names = ()
    aliases: NamePairs = ()
    may_alias: NamePairs = ()
    ends: Names = ()
    classes: tuple[EffectClass, ...] = ()
    within: NamePairs = ()

    def __or__(self, other: EffectSpec) -> EffectSpec:
        """Returns the effects of both."""
        return EffectSpec(*map(operator.add, self, other))

    def of(self, op: object) -> Effects:
        """Returns the effects of one op."""
        return Effects(
            _values(op, self.reads) if self.reads else (),
            _values(op, self.writes) if self.writes else (),
            _values(op, self.fresh) if self.fresh else (),
            _pairs(op, self.aliases) if self.aliases else (),
            _pairs(op, self.may_alias) if self.may_alias else (),
            (),
            _values(op, self.ends) if self.ends else (),
            self.classes,
            (),
            _pairs(op, self.within) if self.within else (),
        )


def _values(op: object, fields: Iterable[str]) -> tuple[Value, ...]:
    """Returns the values of these fields, each of which is a value, a tuple of values, or None."""
    values: list[Value] = []
    for name in fields:
        content: Value | tuple[Value, ...] | None = getattr(op, name)  # by a name from the op's class
        if isinstance(content, tuple):
            values += content
        elif content is not None:
            values.append(content)
    return tuple(values)


def _pairs(op: object, pairs: NamePairs) -> Pairs:
    return tuple([(r, s) for lhs, rhs in pairs for r in _values(op, (lhs,)) for s in _values(op, (rhs,))])


def reads(*fields: str) -> EffectSpec:
    """Declares that the op reads the elements of these operands."""
    return EffectSpec(reads=fields)


def writes(*fields: str) -> EffectSpec:
    """Declares that the op writes the elements of these operands."""
    return EffectSpec(writes=fields)


def fresh(*fields: str) -> EffectSpec:
    """Declares that these results have a new storage."""
    return EffectSpec(fresh=fields)


def aliases(result: str, operand: str) -> EffectSpec:
    """Declares that the result shares the operand's storage."""
    return EffectSpec(aliases=((result, operand),))


def may_alias(result: str, operand: str) -> EffectSpec:
    """Declares that the result may share the operand's storage."""
    return EffectSpec(may_alias=((result, operand),))


def ends(*fields: str) -> EffectSpec:
    """Declares that the storage or name of these operands ends."""
    return EffectSpec(ends=fields)


def within(result: str, operand: str) -> EffectSpec:
    """Declares that the result is a storage inside the operand's bytes."""
    return EffectSpec(within=((result, operand),))


def has(*classes: EffectClass) -> EffectSpec:
    """Declares effects beyond memory."""
    return EffectSpec(classes=classes)
