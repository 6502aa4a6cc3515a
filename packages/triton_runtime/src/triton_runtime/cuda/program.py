"""Translates grids to programs of a small stack machine, which the launcher runs (`run_steps` in
`grids.h`)."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Mapping

from triton_runtime.grids import Grid
from wrapper_ir.expr import Apply, Bool, Expr, Int, Operator, Sym, SymKind
from wrapper_ir.expr import operators as ops

_STACK = 32
_INT64 = range(-(1 << 63), 1 << 63)


class _Op(enum.IntEnum):
    """Instructions, in the order of the launcher's `Op`."""

    CONST = 0
    NUMBER = 1
    ADD = 2
    MUL = 3
    FLOOR_DIV = 4
    CEIL_DIV = 5
    MOD = 6
    MIN = 7
    MAX = 8
    WHERE = 9
    EQ = 10
    NE = 11
    LT = 12
    LE = 13
    GT = 14
    GE = 15
    AND = 16
    OR = 17
    NOT = 18
    AXIS = 19


_PAIRWISE: Mapping[Operator, _Op] = {
    ops.ADD: _Op.ADD,
    ops.MUL: _Op.MUL,
    ops.MIN: _Op.MIN,
    ops.MAX: _Op.MAX,
    ops.AND: _Op.AND,
    ops.OR: _Op.OR,
    ops.FLOORDIV: _Op.FLOOR_DIV,
    ops.CEILDIV: _Op.CEIL_DIV,
    ops.MOD: _Op.MOD,
    ops.EQ: _Op.EQ,
    ops.NE: _Op.NE,
    ops.LT: _Op.LT,
    ops.LE: _Op.LE,
    ops.GT: _Op.GT,
    ops.GE: _Op.GE,
}


class _NotNative(Exception):
    """The launcher has no instruction for this; it calls the grid's Python function instead."""


def numbers_of(grid: Grid) -> tuple[int, ...]:
    """Positions, among the arguments of a launch, of the integers that the grid uses."""
    names = {name for size in grid.sizes for name in size.free_symbols}
    return tuple(i for i, name in enumerate(grid.params) if name in names)


def steps_of(grid: Grid) -> bytes:
    """The grid's program: pairs of int64.

    Empty if it must be computed in Python: fractions, powers, functions, numbers beyond int64. A program
    falls back to Python on overflow or division by zero.
    """
    places = {name: i for i, name in enumerate(grid.params)}
    steps: list[tuple[_Op, int]] = []
    try:
        for size in grid.sizes:
            steps.extend(_steps(size, places))
            steps.append((_Op.AXIS, 0))
    except _NotNative:
        return b""
    if _depth(steps) > _STACK:
        return b""
    return b"".join(struct.pack("=qq", op, operand) for op, operand in steps)


def _steps(e: Expr, places: Mapping[str, int]) -> Iterator[tuple[_Op, int]]:
    match e:
        case Int(value) | Bool(value) if value in _INT64:
            yield _Op.CONST, int(value)
        case Sym(name, SymKind.INT):
            yield _Op.NUMBER, places[name]
        case Apply(ops.NOT, (arg,)):
            yield from _steps(arg, places)
            yield _Op.NOT, 0
        case Apply(ops.WHERE, args):
            for arg in args:
                yield from _steps(arg, places)
            yield _Op.WHERE, 0
        case Apply(op, (first, *rest)) if op in _PAIRWISE:
            yield from _steps(first, places)
            for arg in rest:
                yield from _steps(arg, places)
                yield _PAIRWISE[op], 0
        case _:
            raise _NotNative


def _depth(steps: list[tuple[_Op, int]]) -> int:
    """The maximum depth of the stack."""
    deepest = depth = 0
    for op, _ in steps:
        match op:
            case _Op.CONST | _Op.NUMBER:
                depth += 1
            case _Op.WHERE:
                depth -= 2
            case _Op.NOT:
                pass
            case _:
                depth -= 1
        deepest = max(deepest, depth)
    return deepest
