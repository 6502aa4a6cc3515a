"""Steps of hostile programs over pools: slots in slots, before and after one another, and storages that
callees are lent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tests.soundness.guarded.hostile import Hostile
from wrapper_ir import ir
from wrapper_ir.builder import tensor_type
from wrapper_ir.expr import Int, SymKind, add, lt

_INT = ir.ScalarType(SymKind.INT)


def _fill(h: Hostile, storage: ir.Value[ir.StorageType]) -> None:
    """A tensor over a storage, written and then read."""
    from tests.soundness.guarded.steps import touch

    rows = h.number(4)
    type = h.type(ir.DType.F32) if h.bad() else tensor_type(ir.DType.F32, (rows,))
    if h.symbols and h.rng.random() < 0.3:
        type = tensor_type(ir.DType.F32, (h.number(h.rng.choice(h.symbols)),))
    view = h.function.view(h.name("part"), storage, type, h.number(h.rng.choice((0, 0, 4, 16))))
    touch(h, view, reads=h.bad())
    if h.rng.random() < 0.6:
        touch(h, view, reads=True)
    h.hold(view)
    h.housed.add(view.name)


def _pool(h: Hostile) -> ir.Value[ir.StorageType]:
    """Memory for slots, of a size that may depend on symbols."""
    size = 256 * h.rng.choice(h.symbols) if h.symbols and h.rng.random() < 0.3 else Int(512)
    purpose = ir.AllocPurpose.WORKSPACE if h.bad() else ir.AllocPurpose.POOL
    return h.function.alloc_storage(
        h.name("pool"), size, purpose=purpose, zero=h.rng.choice(tuple(ir.ZeroMode))
    )


def _slots(h: Hostile, pool: ir.Value[ir.StorageType]) -> list[ir.Value[ir.StorageType]]:
    """Slots, some of which overlap a live or an ended one, or contain nested slots."""
    room = max(pool.type.nbytes.value, 1) if isinstance(pool.type.nbytes, Int) else 256
    made: list[ir.Value[ir.StorageType]] = []
    at = 0
    for _ in range(h.rng.randrange(1, 5)):
        nbytes = min(h.rng.choice((64, 64, 32, 128)), room)
        offset = h.rng.choice((0, 32, at)) if h.rng.random() < 0.15 else at
        if offset + nbytes > room and not h.bad():
            offset = 0
        slot = h.function.slot(h.name("slot"), pool, h.number(offset), h.number(nbytes))
        at = offset + nbytes
        made.append(slot)
        inside = h.rng.random() < 0.2
        if inside and nbytes >= 64:
            inner = h.function.slot(h.name("inner"), slot, h.number(h.rng.choice((0, 16))), h.number(32))
            _fill(h, inner)
        if not inside or h.bad():
            _fill(h, slot)
        if h.bad():
            h.function.append(ir.Free(storage=slot))
    return made


def slots(h: Hostile) -> None:
    """A pool and slots of it."""
    _slots(h, _pool(h))


def _borrower(h: Hostile, type: ir.StorageType, *, counts: bool) -> str:
    """A function of a number and two storages, which it uses whole or in slots.

    `counts`: it returns the number + 1.
    """
    c = h.child("lent")
    for name in sorted(type.nbytes.free_symbols):
        if not h.bad():
            c.function.capture(name)
    k = c.function.param(c.name("k"), _INT)
    owner = ir.Ownership.OWNED if h.bad() else ir.Ownership.BORROWED
    storages = [c.function.param(c.name("p"), type, owner) for _ in range(2)]
    number = c.symbol()
    c.function.define(number.name, ir.Item(k))
    c.symbols.append(number)
    for storage in storages:
        match c.rng.randrange(3):
            case 0:
                _fill(c, storage)
            case 1:
                _slots(c, storage)
            case _:
                if c.depth < 3 and c.rng.random() < 0.5:
                    _lend(c, storages[::-1], type)
    c.function.ret((add(number, 1),) if counts else ())
    return c.function.name


def _lend(h: Hostile, storages: list[ir.Value[ir.StorageType]], type: ir.StorageType) -> None:
    """A call, a switch or a loop over functions that borrow storages."""
    given = dataclasses.replace(type, nbytes=h.number(type.nbytes))
    args: tuple[ir.Arg, ...] = (h.number(1), *storages)
    if storages[0] == storages[1] and not h.bad():
        return
    match h.rng.randrange(3):
        case 0:
            name = _borrower(h, given, counts=False)
            h.function.append(ir.CallSubgraph(function=name, args=args, results=()))
        case 1:
            index = h.number(h.rng.choice(h.symbols)) if h.symbols else Int(0)
            ways = tuple(_borrower(h, given, counts=False) for _ in range(3))
            h.function.append(ir.Switch(index=index, branches=ways, args=args, results=()))
        case _:
            _loop(h, given, args)


def _loop(h: Hostile, type: ir.StorageType, args: tuple[ir.Arg, ...]) -> None:
    test = h.child("test")
    for name in sorted(type.nbytes.free_symbols):
        test.function.capture(name)
    k = test.function.param(test.name("k"), _INT)
    for _ in range(2):
        test.function.param(test.name("p"), type)
    number = test.symbol()
    test.function.define(number.name, ir.Item(k))
    test.function.ret((lt(number, h.number(3)),))
    result = h.function.value(h.name("n"), _INT)
    loop = ir.WhileLoop(
        cond_fn=test.function.name,
        body_fn=_borrower(h, type, counts=True),
        carried=args[:1],
        captured=args[1:],
        stacked=False,
        results=(result,),
    )
    h.function.append(loop)
    h.scalars.append(result)


def lend(h: Hostile) -> None:
    """Storages, or slots of one pool, for callees; if invalid, the same one twice."""
    if h.depth >= 2:
        return
    if h.rng.random() < 0.6:
        made = _slots(h, _pool(h))
        first, second = h.rng.choice(made), h.rng.choice(made)
        if not h.bad():
            others = [s for s in made if s is not first and s.type == first.type]
            if not others:
                return
            second = h.rng.choice(others)
    else:
        size = h.number(256)
        first, second = (h.function.alloc_storage(h.name("ws"), size) for _ in range(2))
        if h.bad():
            second = first
    _lend(h, [first, second], first.type)


SLOTS: tuple[Callable[[Hostile], None], ...] = (slots, lend, lend)
