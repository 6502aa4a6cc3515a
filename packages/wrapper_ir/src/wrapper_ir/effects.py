"""What each op does: the single place that says which bytes are read and written, which results share storage with
which operands, what is moved, and what happens beyond memory.

Verifier, planner, interpreter, debugger and emitters ask here and nowhere else.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from wrapper_ir.atoms import atom_values, item_values
from wrapper_ir.expr import Expr
from wrapper_ir.index import FunctionSummary, ProgramIndex
from wrapper_ir.ops import (
    AllocStorage,
    Arg,
    AssertExpr,
    AssertFinite,
    AssertLayout,
    CallExtern,
    CallSubgraph,
    CollectiveStart,
    Comment,
    Conditional,
    Copy,
    DebugMode,
    DebugValue,
    Define,
    Drop,
    EnsureAligned,
    Free,
    Launch,
    Op,
    RecordEvent,
    ResizeStorage,
    Return,
    SetStorage,
    SyncEvent,
    Unpack,
    View,
    ViewMode,
    Wait,
    WaitEvent,
    WhileLoop,
    ZeroMode,
)
from wrapper_ir.program import Function, Ownership
from wrapper_ir.schemas import ExternTag, OpSchema, SchemaArg, parse_schema
from wrapper_ir.types import TensorType, TupleType
from wrapper_ir.values import Value

__all__ = ["EffectClass", "Effects", "effects_of", "summary_of"]


class EffectClass(enum.Enum):
    """Effects beyond memory. An op with one is never removed; ops that share one keep their order."""

    RANDOM = "random"
    EFFECT = "effect"
    HOST_IO = "host_io"
    COLLECTIVE = "collective"
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


NO_EFFECTS = Effects()


def _values(x: Arg, out: list[Value]) -> list[Value]:
    if isinstance(x, Value):
        out.append(x)
    elif isinstance(x, tuple):
        for item in x:
            _values(item, out)
    elif isinstance(x, Expr):
        out.extend(atom_values(x))
    return out


def _tensors(args: Iterable[Arg]) -> tuple[Value, ...]:
    out: list[Value] = []
    for arg in args:
        _values(arg, out)
    return tuple(v for v in out if isinstance(v.type, TensorType))


def _alloc(op: AllocStorage, index: ProgramIndex) -> Effects:
    zeroed = (op.result,) if op.zero is not ZeroMode.NONE else ()
    return Effects(fresh=(op.result,), writes=zeroed)


def _free(op: Free | Drop, index: ProgramIndex) -> Effects:
    return Effects(ends=(op.storage if isinstance(op, Free) else op.value,))


def _copy(op: Copy, index: ProgramIndex) -> Effects:
    return Effects(reads=(op.src,), writes=(op.dst,))


def _ensure_aligned(op: EnsureAligned, index: ProgramIndex) -> Effects:
    return Effects(reads=(op.source,), may_alias=((op.result, op.source),))


def _resize(op: ResizeStorage, index: ProgramIndex) -> Effects:
    return Effects(writes=(op.target,), classes=(EffectClass.STORAGE_CHANGE,))


def _set_storage(op: SetStorage, index: ProgramIndex) -> Effects:
    return Effects(
        reads=(op.source,),
        writes=(op.target,),
        may_alias=((op.target, op.source),),
        classes=(EffectClass.STORAGE_CHANGE,),
    )


def _view(op: View, index: ProgramIndex) -> Effects:
    moved = (op.source,) if op.mode is ViewMode.REUSE else ()
    return Effects(aliases=((op.result, op.source),), moves=moved)


def _launch(op: Launch, index: ProgramIndex) -> Effects:
    kernel = index.kernels.get(op.kernel)
    if kernel is None:
        tensors = _tensors(op.args)
        return Effects(reads=tensors, writes=tensors)
    reads, writes = [], []
    for param, arg in zip(kernel.params, op.args, strict=False):
        if isinstance(arg, Value):
            if param.access.reads:
                reads.append(arg)
            if param.access.writes:
                writes.append(arg)
    return Effects(reads=tuple(reads), writes=tuple(writes))


@lru_cache(maxsize=4096)
def _by_name(schema: OpSchema) -> dict[str, SchemaArg]:
    return {a.name: a for a in schema.args}


_TAG_CLASS = {
    ExternTag.RANDOM: EffectClass.RANDOM,
    ExternTag.EFFECTFUL: EffectClass.EFFECT,
    ExternTag.HOST_IO: EffectClass.HOST_IO,
    ExternTag.COLLECTIVE: EffectClass.COLLECTIVE,
}


def _extern(op: CallExtern | CollectiveStart, index: ProgramIndex) -> Effects:
    extern = index.externs.get(op.target)
    if extern is None:
        tensors = _tensors((*op.args, *(v for _, v in op.kwargs)))
        return Effects(reads=tensors, writes=tensors, classes=(EffectClass.EFFECT,))
    schema = parse_schema(extern.schema)
    named = _by_name(schema)
    reads: list[Value] = []
    writes: list[Value] = []
    sets: dict[str, list[Value]] = {}
    bound = [*zip(schema.args, op.args, strict=False)]
    bound += [(named[k], v) for k, v in op.kwargs if k in named]
    for declared, arg in bound:
        values = _values(arg, [])
        if not values:
            continue
        if declared.written:
            writes += values
        if not (declared.written and declared.keyword_only):
            reads += values
        if declared.alias:
            sets.setdefault(declared.alias, []).extend(values)
    result_effects = _extern_result(op.result, schema, ExternTag.MAY_ALIAS in extern.tags, sets)
    classes = tuple(_TAG_CLASS[t] for t in extern.tags if t in _TAG_CLASS)
    if isinstance(op, CollectiveStart) and EffectClass.COLLECTIVE not in classes:
        classes = (*classes, EffectClass.COLLECTIVE)
    return result_effects._replace(reads=tuple(reads), writes=tuple(writes), classes=classes)


def _extern_result(
    result: Value | None, schema: OpSchema, may: bool, sets: dict[str, list[Value]]
) -> Effects:
    """Freshness and aliasing of a call's result, from the alias sets of the schema's returns."""
    if result is None or not isinstance(result.type, TensorType | TupleType):
        return NO_EFFECTS
    pairs: list[tuple[Value, Value]] = []
    fresh = False
    for ret in schema.returns:
        if ret.alias == "*":
            pairs += [(result, v) for values in sets.values() for v in values]
            may = True
        elif ret.alias:
            pairs += [(result, v) for v in sets.get(ret.alias, ())]
        else:
            fresh = True
    if isinstance(result.type, TupleType) or may or len({v for _, v in pairs}) > 1:
        return Effects(fresh=(result,) if fresh and not pairs else (), may_alias=tuple(pairs))
    return Effects(fresh=() if pairs else (result,), aliases=tuple(pairs))


def _unpack(op: Unpack, index: ProgramIndex) -> Effects:
    return Effects(aliases=((op.result, op.source),))


def _define(op: Define, index: ProgramIndex) -> Effects:
    read = tuple(v for v in item_values(op.expr) if isinstance(v.type, TensorType))
    return Effects(reads=read) if read else NO_EFFECTS


def _check(op: AssertLayout | AssertExpr, index: ProgramIndex) -> Effects:
    return Effects(classes=(EffectClass.CHECK,))


def _finite(op: AssertFinite, index: ProgramIndex) -> Effects:
    return Effects(reads=(op.tensor,), classes=(EffectClass.CHECK,))


def _call(op: Conditional | CallSubgraph, index: ProgramIndex) -> Effects:
    """Calls may do with their arguments whatever their callees do: read, write (see `callee_writes`), own."""
    names = (op.function,) if isinstance(op, CallSubgraph) else (op.true_fn, op.false_fn)
    tensors = _tensors(op.args)
    predicate = _tensors((op.predicate,)) if isinstance(op, Conditional) else ()
    moved, written = _callee_effects(names, op.args, index)
    fresh = tuple(r for r in op.results if isinstance(r.type, TensorType))
    kept = [t for t in tensors if t not in moved]
    return Effects(
        reads=(*predicate, *tensors),
        writes=written,
        moves=moved,
        fresh=() if kept else fresh,
        may_alias=tuple((r, t) for r in fresh for t in kept),
        classes=_callee_classes(names, index),
    )


def _while(op: WhileLoop, index: ProgramIndex) -> Effects:
    args = (*op.carried, *op.captured)
    moved, written = _callee_effects((op.body_fn,), args, index)
    return Effects(
        reads=_tensors(args),
        writes=written,
        moves=moved,
        fresh=tuple(r for r in op.results if isinstance(r.type, TensorType)),
        classes=_callee_classes((op.cond_fn, op.body_fn), index),
    )


def _callee_effects(
    names: tuple[str, ...], args: tuple[Arg, ...], index: ProgramIndex
) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """(moved, written) tensor arguments of a call to any of the named functions."""
    moved: list[Value] = []
    written: list[Value] = []
    for name in names:
        function = index.functions.get(name)
        if function is None:
            continue
        touched = summary_of(name, index).written_params
        for i, (param, arg) in enumerate(zip(function.params, args, strict=False)):
            if not isinstance(arg, Value) or not isinstance(arg.type, TensorType):
                continue
            if param.ownership is Ownership.OWNED and arg not in moved:
                moved.append(arg)
            if i in touched and arg not in written:
                written.append(arg)
    return tuple(moved), tuple(written)


def _callee_classes(names: tuple[str, ...], index: ProgramIndex) -> tuple[EffectClass, ...]:
    found: dict[EffectClass, None] = {}
    for name in names:
        found.update(dict.fromkeys(EffectClass(c) for c in summary_of(name, index).classes))
    return tuple(found)


def summary_of(name: str, index: ProgramIndex) -> FunctionSummary:
    """The summary of a function of the program, memoised; recursion and unknown names count as doing nothing
    (the verifier refuses both)."""
    known = index.summaries.get(name)
    if known is not None:
        return known
    index.summaries[name] = FunctionSummary()
    function = index.functions.get(name)
    if function is not None:
        index.summaries[name] = _summarise(function, index)
    return index.summaries[name]


def _summarise(function: Function, index: ProgramIndex) -> FunctionSummary:
    roots: dict[Value, frozenset[int]] = {p.value: frozenset((i,)) for i, p in enumerate(function.params)}
    written: set[int] = set()
    classes: dict[str, None] = {}
    nothing: frozenset[int] = frozenset()
    for op in function.body:
        effects = effects_of(op, index)
        for result, source in (*effects.aliases, *effects.may_alias):
            if source in roots:
                roots[result] = roots.get(result, nothing) | roots[source]
        for value in effects.writes:
            written |= roots.get(value, nothing)
        classes.update(dict.fromkeys(c.value for c in effects.classes))
    return FunctionSummary(frozenset(written), tuple(classes))


def _return(op: Return, index: ProgramIndex) -> Effects:
    return Effects(moves=_tensors(op.values))


def _order(op: RecordEvent | WaitEvent | SyncEvent, index: ProgramIndex) -> Effects:
    return Effects(classes=(EffectClass.ORDER,))


def _wait(op: Wait, index: ProgramIndex) -> Effects:
    return Effects(
        reads=(op.source,),
        writes=(op.source,),
        aliases=((op.result, op.source),),
        classes=(EffectClass.COLLECTIVE,),
    )


def _comment(op: Comment, index: ProgramIndex) -> Effects:
    return NO_EFFECTS


def _debug(op: DebugValue, index: ProgramIndex) -> Effects:
    read = op.values if op.mode is not DebugMode.NAMES else ()
    return Effects(reads=read, classes=(EffectClass.HOST_IO,))


# Keyed by op class; a test compares the keys with OP_CLASSES. The value types differ, hence the loose key type.
_TABLE: dict[type, Callable[..., Effects]] = {
    AllocStorage: _alloc,
    Free: _free,
    Drop: _free,
    Copy: _copy,
    EnsureAligned: _ensure_aligned,
    ResizeStorage: _resize,
    SetStorage: _set_storage,
    View: _view,
    Launch: _launch,
    CallExtern: _extern,
    Unpack: _unpack,
    Define: _define,
    AssertLayout: _check,
    AssertExpr: _check,
    AssertFinite: _finite,
    Conditional: _call,
    WhileLoop: _while,
    CallSubgraph: _call,
    Return: _return,
    RecordEvent: _order,
    WaitEvent: _order,
    SyncEvent: _order,
    CollectiveStart: _extern,
    Wait: _wait,
    Comment: _comment,
    DebugValue: _debug,
}


def effects_of(op: Op, index: ProgramIndex) -> Effects:
    """The effects of `op` in its program. An unknown kernel or operator is taken to read and write everything."""
    return _TABLE[type(op)](op, index)
