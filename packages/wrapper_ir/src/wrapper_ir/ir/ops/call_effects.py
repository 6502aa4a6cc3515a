"""Effects of calls: of library operators by their schemas, of functions by their summaries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from wrapper_ir.ir.atoms import values_in
from wrapper_ir.ir.ops.base import Arg
from wrapper_ir.ir.ops.effects import (
    EffectClass,
    EffectContext,
    Effects,
    FunctionSummary,
    Pairs,
    ResultOrigin,
)
from wrapper_ir.ir.schemas import ExternInfo, ExternTag, SchemaArg, SchemaReturn
from wrapper_ir.ir.values import Value, is_results, is_tensor

Args = tuple[Arg, ...]
Kwargs = tuple[tuple[str, Arg], ...]
Values = tuple[Value, ...]

_TAG_CLASS = {
    ExternTag.RANDOM: EffectClass.RANDOM,
    ExternTag.EFFECTFUL: EffectClass.EFFECT,
    ExternTag.HOST_IO: EffectClass.HOST_IO,
    ExternTag.COLLECTIVE: EffectClass.COLLECTIVE,
}


def tensors_in(args: Iterable[Arg]) -> Values:
    """Returns the tensors among arguments, at any depth and under atoms of expressions."""
    return tuple([v for v in values_in((*args,), []) if is_tensor(v)])


def values_at(args: Args, positions: Collection[int]) -> Values:
    """Returns the arguments at these positions that are values."""
    count = len(args)
    return tuple([a for i in sorted(positions) if 0 <= i < count and type(a := args[i]) is Value])


# --- library operators


class _Access(NamedTuple):
    """Accesses of a call to its arguments, as the operator's schema declares them."""

    reads: list[Value]
    writes: list[Value]
    bound: list[tuple[SchemaArg, list[Value]]]
    """Arguments that contain values, in order."""

    def sets(self) -> dict[str, list[Value]]:
        """Returns the values of each alias set."""
        members: dict[str, list[Value]] = {}
        for declared, values in self.bound:
            if declared.alias:
                members.setdefault(declared.alias, []).extend(values)
        return members


def _access(args: Args, kwargs: Kwargs, info: ExternInfo) -> _Access:
    access = _Access([], [], [])
    by_name = info.named
    bound = [*zip(info.schema.args, args, strict=False)]
    bound += [(by_name[k], v) for k, v in kwargs if k in by_name]
    for declared, arg in bound:
        values = values_in(arg, [])
        if not values:
            continue
        if declared.written:
            access.writes.extend(values)
        if not (declared.written and declared.keyword_only):
            access.reads.extend(values)
        access.bound.append((declared, values))
    return access


def unknown_effects(args: Args, kwargs: Kwargs, results: Values, *more: EffectClass) -> Effects:
    """Returns the effects of a call to an undeclared operator, which may do anything to its arguments."""
    tensors = tensors_in((*args, *(v for _, v in kwargs)))
    shared = tuple((r, t) for r in results for t in tensors)
    fresh, classes = () if shared else results, (EffectClass.EFFECT, *more)
    return Effects(tensors, tensors, fresh, may_alias=shared, classes=classes)


def operator_effects(args: Args, kwargs: Kwargs, result: Value | None, info: ExternInfo) -> Effects:
    """Returns the effects of a call to a declared operator."""
    access = _access(args, kwargs, info)
    tags = info.extern.tags
    classes = tuple(_TAG_CLASS[t] for t in tags if t in _TAG_CLASS) if tags else ()
    sets = access.sets()
    may = ExternTag.MAY_ALIAS in tags
    if may and not sets:
        sets["*"] = list(access.reads)
    fresh, aliases, may_alias = _operator_result(result, info.schema.returns, may, sets)
    return Effects(tuple(access.reads), tuple(access.writes), fresh, aliases, may_alias, (), (), classes)


def _operator_result(
    result: Value | None, returns: tuple[SchemaReturn, ...], may: bool, sets: dict[str, list[Value]]
) -> tuple[Values, Pairs, Pairs]:
    """Returns (fresh, aliases, may_alias) of a call's result, from the alias sets of the schema's returns."""
    if not is_tensor(result) and not is_results(result):
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
    if fresh or may or is_results(result) or len({v for _, v in pairs}) > 1:
        return (), (), tuple(pairs)
    return (), tuple(pairs), ()


def collective_effects(args: Args, kwargs: Kwargs, results: Values, info: ExternInfo) -> Effects:
    """Returns the effects of a call to a declared collective."""
    access = _access(args, kwargs, info)
    returns = info.schema.returns
    listed = len(returns) == 1 and returns[0].type.endswith("[]")
    fresh: Values = ()
    aliases: Pairs = ()
    may_alias: Pairs = ()
    shares: list[_Access] = []
    for i, result in enumerate(results):
        share = _share(access, i, len(results)) if listed else access
        ret = returns[:1] if listed else returns[i : i + 1]
        own, same, perhaps = _operator_result(result, ret, False, share.sets())
        fresh, aliases, may_alias = (*fresh, *own), (*aliases, *same), (*may_alias, *perhaps)
        shares.append(share)
    owners = {operand: result for result, operand in aliases}
    holds = tuple(
        (result, v)
        for result, share in zip(results, shares, strict=True)
        for _, values in share.bound
        for v in values
        if is_tensor(v) and owners.get(v, result) is result
    )
    classes = dict.fromkeys(_TAG_CLASS[t] for t in info.extern.tags if t in _TAG_CLASS)
    classes[EffectClass.COLLECTIVE] = None
    reads, writes = tuple(access.reads), tuple(access.writes)
    return Effects(reads, writes, fresh, aliases, may_alias, (), (), tuple(classes), holds)


def _share(access: _Access, i: int, count: int) -> _Access:
    """Returns the arguments of the i-th of `count` results: the i-th element of each list of that length."""
    bound = [
        (declared, values[i : i + 1] if declared.type.endswith("[]") and len(values) == count else values)
        for declared, values in access.bound
    ]
    return access._replace(bound=bound)


# --- functions


def call_effects(results: Values, args: Args, functions: Sequence[str], context: EffectContext) -> Effects:
    """Returns the effects of a call to any one of these functions: the union of theirs."""
    callees = [context.summary(name) for name in functions]
    fresh, aliases, may_alias = _call_results(results, args, callees)
    return Effects(
        reads=_touched(args, callees, writes=False),
        writes=_touched(args, callees, writes=True),
        fresh=fresh,
        aliases=aliases,
        may_alias=may_alias,
        moves=tuple(dict.fromkeys(v for callee in callees for v in values_at(args, callee.owned_params))),
        classes=tuple(dict.fromkeys(c for callee in callees for c in callee.classes)),
    )


def _touched(args: Args, callees: list[FunctionSummary], *, writes: bool) -> Values:
    """Returns the tensor arguments and constants that any of the callees writes, or else reads."""
    values: dict[Value, None] = {}
    for callee in callees:
        positions = callee.written_params if writes else callee.read_params
        values.update(dict.fromkeys(values_at(args, positions)))
        values.update(dict.fromkeys(callee.written_constants if writes else callee.read_constants))
    return tuple(values)


def _call_results(results: Values, args: Args, callees: list[FunctionSummary]) -> tuple[Values, Pairs, Pairs]:
    """Returns (fresh, aliases, may_alias) of a call's results, from the origins of returned values."""
    fresh: list[Value] = []
    aliases: list[tuple[Value, Value]] = []
    may_alias: list[tuple[Value, Value]] = []
    firsts = [_first_owners(callee) for callee in callees]
    for k, result in enumerate(results):
        if not is_tensor(result):
            continue
        sources: dict[Value | None, None] = {}
        certain = True
        for callee, first in zip(callees, firsts, strict=True):
            origin = callee.results[k] if k < len(callee.results) else None
            certain = certain and origin is not None and origin.certain
            sources.update(dict.fromkeys(_sources(origin or ResultOrigin(), k, first, (results, args))))
        shared = [s for s in sources if s is not None]
        if certain and len(sources) <= 1:
            aliases += [(result, s) for s in shared]
            fresh += [] if shared else [result]
        else:
            may_alias += [(result, s) for s in (shared or [result])]
    return tuple(fresh), tuple(aliases), tuple(may_alias)


def _first_owners(callee: FunctionSummary) -> dict[Value, int]:
    """Maps each storage that the callee returns to the first result that may own it."""
    owners: dict[Value, int] = {}
    for k, origin in enumerate(callee.results):
        for root in origin.own if origin is not None else ():
            owners.setdefault(root, k)
    return owners


def _sources(
    origin: ResultOrigin, k: int, owners: Mapping[Value, int], call: tuple[Values, Args]
) -> list[Value | None]:
    """Returns the caller's values that the callee's k-th result may alias; None stands for a new storage."""
    results, args = call
    sources: list[Value | None] = [*values_at(args, origin.params)]
    sources += origin.constants
    for root in origin.own:
        first = owners[root]
        sources.append(results[first] if first < min(k, len(results)) else None)
    return sources or [None]
