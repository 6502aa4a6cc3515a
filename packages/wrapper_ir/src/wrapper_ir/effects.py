"""What each op does: the single place that says which bytes are read and written, which results share storage with
which operands, what is moved, and what happens beyond memory.

Verifier, planner, interpreter, debugger and emitters ask here and nowhere else.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import NamedTuple

from wrapper_ir.atoms import atom_values, item_values
from wrapper_ir.expr import Expr
from wrapper_ir.index import ExternInfo, FunctionSummary, ProgramIndex, ResultOrigin
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
from wrapper_ir.program import Ownership
from wrapper_ir.schemas import ExternTag, SchemaArg, SchemaReturn
from wrapper_ir.types import TensorType, TupleType
from wrapper_ir.values import Value

__all__ = ["EffectClass", "Effects", "effects_of", "summary_of"]


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
Values = tuple[Value, ...]


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
    made = (op.result,)
    return Effects((), made if op.zero is not ZeroMode.NONE else (), made)


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
    return Effects((), (), (), ((op.result, op.source),), (), moved)


def _launch(op: Launch, index: ProgramIndex) -> Effects:
    access = index.kernel_access.get(op.kernel)
    args = op.args
    if access is None or len(args) != len(index.kernels[op.kernel].params):
        tensors = _tensors(args)
        return Effects(tensors, tensors)
    return Effects(
        tuple([v for i in access.reads if isinstance(v := args[i], Value)]),
        tuple([v for i in access.writes if isinstance(v := args[i], Value)]),
    )


_TAG_CLASS = {
    ExternTag.RANDOM: EffectClass.RANDOM,
    ExternTag.EFFECTFUL: EffectClass.EFFECT,
    ExternTag.HOST_IO: EffectClass.HOST_IO,
    ExternTag.COLLECTIVE: EffectClass.COLLECTIVE,
}


class _Access(NamedTuple):
    """What a call does with its arguments, as the operator's schema has it."""

    reads: list[Value]
    writes: list[Value]
    bound: list[tuple[SchemaArg, list[Value]]]
    """Arguments that hold values, in order."""

    def sets(self) -> dict[str, list[Value]]:
        """The values of each alias set."""
        found: dict[str, list[Value]] = {}
        for declared, values in self.bound:
            if declared.alias:
                found.setdefault(declared.alias, []).extend(values)
        return found


def _access(op: CallExtern | CollectiveStart, info: ExternInfo) -> _Access:
    found = _Access([], [], [])
    named = info.named
    bound = [*zip(info.schema.args, op.args, strict=False)]
    bound += [(named[k], v) for k, v in op.kwargs if k in named]
    for declared, arg in bound:
        if isinstance(arg, Value):
            values = [arg]
        elif not isinstance(arg, tuple | Expr) or not (values := _values(arg, [])):
            continue
        if declared.written:
            found.writes.extend(values)
        if not (declared.written and declared.keyword_only):
            found.reads.extend(values)
        found.bound.append((declared, values))
    return found


def _unknown(op: CallExtern | CollectiveStart, made: tuple[Value, ...], *more: EffectClass) -> Effects:
    """A call of an operator that is not declared: anything may happen to its arguments."""
    tensors = _tensors((*op.args, *(v for _, v in op.kwargs)))
    shared = tuple((r, t) for r in made for t in tensors)
    return Effects(
        tensors, tensors, () if shared else made, may_alias=shared, classes=(EffectClass.EFFECT, *more)
    )


def _extern(op: CallExtern, index: ProgramIndex) -> Effects:
    info = index.extern_info.get(op.target)
    if info is None:
        return _unknown(op, () if op.result is None else (op.result,))
    access = _access(op, info)
    tags = info.extern.tags
    classes = tuple(_TAG_CLASS[t] for t in tags if t in _TAG_CLASS) if tags else ()
    sets = access.sets()
    may = ExternTag.MAY_ALIAS in tags
    if may and not sets:
        sets["*"] = list(access.reads)
    fresh, aliases, may_alias = _extern_result(op.result, info.schema.returns, may, sets)
    return Effects(tuple(access.reads), tuple(access.writes), fresh, aliases, may_alias, (), (), classes)


def _extern_result(
    result: Value | None, returns: tuple[SchemaReturn, ...], may: bool, sets: dict[str, list[Value]]
) -> tuple[tuple[Value, ...], Pairs, Pairs]:
    """(fresh, aliases, may_alias) of a call's result, from the alias sets of the schema's returns."""
    if result is None or not isinstance(result.type, TensorType | TupleType):
        return (), (), ()
    pairs: list[tuple[Value, Value]] = []
    fresh = False
    for ret in returns:
        if ret.alias == "*" or (may and not ret.alias):
            pairs += [(result, v) for values in sets.values() for v in values]
            may = True
        elif ret.alias:
            pairs += [(result, v) for v in (*sets.get(ret.alias, ()), *sets.get("*", ()))]
        else:
            fresh = True
    if not pairs:
        return (result,), (), ()
    if fresh or may or isinstance(result.type, TupleType) or len({v for _, v in pairs}) > 1:
        return (), (), tuple(pairs)
    return (), tuple(pairs), ()


def _collective(op: CollectiveStart, index: ProgramIndex) -> Effects:
    """Each result stands for one return, or for one element of the list that is returned."""
    info = index.extern_info.get(op.target)
    if info is None:
        found = _unknown(op, op.results, EffectClass.COLLECTIVE)
        return found._replace(holds=tuple((r, t) for r in op.results for t in found.reads))
    access = _access(op, info)
    returns = info.schema.returns
    listed = len(returns) == 1 and returns[0].type.endswith("[]")
    fresh: Values = ()
    aliases: Pairs = ()
    may_alias: Pairs = ()
    shares: list[_Access] = []
    for i, result in enumerate(op.results):
        share = _share(access, i, len(op.results)) if listed else access
        ret = returns[:1] if listed else returns[i : i + 1]
        own, same, perhaps = _extern_result(result, ret, False, share.sets())
        fresh, aliases, may_alias = (*fresh, *own), (*aliases, *same), (*may_alias, *perhaps)
        shares.append(share)
    owners = {operand: result for result, operand in aliases}
    holds = tuple(
        (result, v)
        for result, share in zip(op.results, shares, strict=True)
        for _, values in share.bound
        for v in values
        if isinstance(v.type, TensorType) and owners.get(v, result) is result
    )
    classes = dict.fromkeys(_TAG_CLASS[t] for t in info.extern.tags if t in _TAG_CLASS)
    classes[EffectClass.COLLECTIVE] = None
    reads, writes = tuple(access.reads), tuple(access.writes)
    return Effects(reads, writes, fresh, aliases, may_alias, (), (), tuple(classes), holds)


def _share(access: _Access, i: int, count: int) -> _Access:
    """The arguments that belong to the i-th of `count` returned tensors: of lists as long, the i-th element."""
    bound = [
        (declared, values[i : i + 1] if declared.type.endswith("[]") and len(values) == count else values)
        for declared, values in access.bound
    ]
    return access._replace(bound=bound)


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
    """Calls may do with their arguments whatever their callees do: read, write, own, return."""
    names = (op.function,) if isinstance(op, CallSubgraph) else (op.true_fn, op.false_fn)
    predicate = _tensors((op.predicate,)) if isinstance(op, Conditional) else ()
    callees = [summary_of(name, index) for name in names]
    fresh, aliases, may_alias = _call_results(op.results, op.args, callees)
    return Effects(
        reads=(*predicate, *_touched(op.args, callees, written=False)),
        writes=_touched(op.args, callees, written=True),
        fresh=fresh,
        aliases=aliases,
        may_alias=may_alias,
        moves=_moved(op.args, names, index),
        classes=_classes(callees),
    )


def _while(op: WhileLoop, index: ProgramIndex) -> Effects:
    """Carried values are also read by the loop itself, which clones them when it makes no trip."""
    args = (*op.carried, *op.captured)
    callees = [summary_of(name, index) for name in (op.cond_fn, op.body_fn)]
    return Effects(
        reads=(*_tensors(op.carried), *_touched(args, callees, written=False)),
        writes=_touched(args, callees, written=True),
        fresh=tuple(r for r in op.results if isinstance(r.type, TensorType)),
        classes=_classes(callees),
    )


def _touched(args: tuple[Arg, ...], callees: list[FunctionSummary], *, written: bool) -> tuple[Value, ...]:
    """Tensor arguments (and constants) that a call to any of the callees writes, or else reads."""
    found: dict[Value, None] = {}
    for callee in callees:
        positions = callee.written_params if written else callee.read_params
        for i, arg in enumerate(args):
            if i in positions and isinstance(arg, Value):
                found[arg] = None
        found.update(dict.fromkeys(callee.written_constants if written else callee.read_constants))
    return tuple(found)


def _moved(args: tuple[Arg, ...], names: tuple[str, ...], index: ProgramIndex) -> tuple[Value, ...]:
    moved: dict[Value, None] = {}
    for name in names:
        function = index.functions.get(name)
        for param, arg in zip(function.params, args, strict=False) if function else ():
            if param.ownership is Ownership.OWNED and isinstance(arg, Value):
                moved[arg] = None
    return tuple(moved)


def _classes(callees: list[FunctionSummary]) -> tuple[EffectClass, ...]:
    return tuple(dict.fromkeys(EffectClass(c) for callee in callees for c in callee.classes))


def _call_results(
    results: tuple[Value, ...], args: tuple[Arg, ...], callees: list[FunctionSummary]
) -> tuple[tuple[Value, ...], Pairs, Pairs]:
    """(fresh, aliases, may_alias) of a call's results, from where each callee's returned values come from."""
    fresh: list[Value] = []
    aliases: list[tuple[Value, Value]] = []
    may_alias: list[tuple[Value, Value]] = []
    for k, result in enumerate(results):
        if not isinstance(result.type, TensorType):
            continue
        sources: dict[Value | None, None] = {}
        certain = True
        for callee in callees:
            origin = callee.results[k] if k < len(callee.results) else None
            certain = certain and origin is not None and origin.certain
            sources.update(dict.fromkeys(_sources(origin or ResultOrigin(), k, callee, (results, args))))
        known = [s for s in sources if s is not None]
        if certain and len(sources) <= 1:
            aliases += [(result, s) for s in known]
            fresh += [] if known else [result]
        else:
            may_alias += [(result, s) for s in (known or [result])]
    return tuple(fresh), tuple(aliases), tuple(may_alias)


def _sources(
    origin: ResultOrigin,
    k: int,
    callee: FunctionSummary,
    call: tuple[tuple[Value, ...], tuple[Arg, ...]],
) -> list[Value | None]:
    """The caller's values whose storage the callee's k-th result may have; None stands for its own."""
    results, args = call
    found: list[Value | None] = [
        arg for i in origin.params if i < len(args) and isinstance(arg := args[i], Value)
    ]
    found += origin.constants
    for root in origin.own:
        before = (j for j, other in enumerate(callee.results[:k]) if other is not None and root in other.own)
        first = next(before, None)
        found.append(results[first] if first is not None and first < len(results) else None)
    return found or [None]


def summary_of(name: str, index: ProgramIndex) -> FunctionSummary:
    """The summary of a function of the program, memoised; recursion and unknown names count as doing nothing
    (the verifier refuses both)."""
    known = index.summaries.get(name)
    if known is not None:
        return known
    index.summaries[name] = FunctionSummary()
    function = index.functions.get(name)
    if function is not None:
        # Imported here: a summary needs the aliasing of the callee, which needs the effects of its ops.
        from wrapper_ir.aliasing import summarise

        index.summaries[name] = summarise(function, index)
    return index.summaries[name]


def _return(op: Return, index: ProgramIndex) -> Effects:
    """Moves what the function owns; borrowed parameters and constants stay where they are (see `aliasing`)."""
    return Effects(moves=_tensors(op.values))


def _order(op: RecordEvent | WaitEvent | SyncEvent, index: ProgramIndex) -> Effects:
    made = (op.result,) if isinstance(op, RecordEvent) else ()
    return Effects(fresh=made, classes=(EffectClass.ORDER,))


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
    CollectiveStart: _collective,
    Wait: _wait,
    Comment: _comment,
    DebugValue: _debug,
}


def effects_of(op: Op, index: ProgramIndex) -> Effects:
    """The effects of `op` in its program. An unknown kernel or operator is taken to read and write everything."""
    return _TABLE[type(op)](op, index)
