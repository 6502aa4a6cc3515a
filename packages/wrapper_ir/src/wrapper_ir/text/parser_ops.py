"""Reads ops, one line each, from a table by the op's word."""

from __future__ import annotations

from collections.abc import Callable

from wrapper_ir.expr import Int
from wrapper_ir.ops import (
    AllocPurpose,
    AllocStorage,
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
    Provenance,
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
from wrapper_ir.text.lexer import kind_of
from wrapper_ir.text.parser_scope import OpParser
from wrapper_ir.types import OpaqueKind, OpaqueType, StorageType, TensorType, Type
from wrapper_ir.values import Value

__all__ = ["ALLOC", "OP_PARSERS", "read_op"]

ALLOC = "alloc"
"""The word of the one-line form that stands for two ops."""

_ZERO = Int(0)
_EVENT = OpaqueType(OpaqueKind.EVENT)
_PURPOSES = {p.value: p for p in AllocPurpose if p is not AllocPurpose.PLAIN}
_ZERO_MODES = {z.value: z for z in ZeroMode}
_DEBUG_MODES = {m.value: m for m in DebugMode}


def read_op(p: OpParser, prov: Provenance) -> tuple[Op, ...]:
    """The ops of the line that starts here, up to its mark or end; all get the provenance `prov`."""
    p.start_op(prov)
    word = p.tokens[p.at]
    read = OP_PARSERS.get(word)
    if read is not None:
        p.at += 1
        return (read(p),)
    if word != ALLOC:
        if kind_of(word) != "NAME":
            p.unexpected("an op")
        p.unknown("op", [*OP_PARSERS, ALLOC])
    p.at += 1
    return _alloc(p)


def _alloc_options(p: OpParser) -> tuple[AllocPurpose, ZeroMode, int]:
    purpose = _PURPOSES.get(p.tokens[p.at], AllocPurpose.PLAIN)
    if purpose is not AllocPurpose.PLAIN:
        p.at += 1
    zero = ZeroMode.NONE
    if p.accept("zero"):
        p.expect("(")
        zero = p.choice(_ZERO_MODES, "zero mode")
        p.expect(")")
    return purpose, zero, p.stream()


def _alloc(p: OpParser) -> tuple[Op, ...]:
    name, start = p.result_name, p.at
    type_ = p.type()
    if not isinstance(type_, TensorType):
        p.fail("WIR500", "alloc makes a tensor", start, hint="use alloc_storage")
    purpose, zero, stream = _alloc_options(p)
    if len(type_.sizes) != len(type_.strides):
        p.fail("WIR500", f"{len(type_.sizes)} sizes, but {len(type_.strides)} strides", start)
    storage = p.define(f"{name}.s", p.storage_of(type_), start - 3)
    result = p.result(type_)
    return (
        AllocStorage(result=storage, purpose=purpose, zero=zero, stream=stream, prov=p.prov),
        View(source=storage, result=result, prov=p.prov),
    )


def _alloc_storage(p: OpParser) -> Op:
    made = _storage_type(p)
    purpose, zero, stream = _alloc_options(p)
    return AllocStorage(result=p.result(made), purpose=purpose, zero=zero, stream=stream, prov=p.prov)


def _storage_type(p: OpParser) -> Type:
    if p.accept(":"):  # another kind of type, which the verifier refuses
        return p.type()
    nbytes = p.expr()
    return StorageType(nbytes, p.device_suffix(), p.space())


def _free(p: OpParser) -> Op:
    p.no_result()
    return Free(storage=p.value(), prov=p.prov)


def _drop(p: OpParser) -> Op:
    p.no_result()
    return Drop(value=p.value(), prov=p.prov)


def _pair(p: OpParser) -> tuple[Value, Value]:
    p.no_result()
    first = p.value()
    p.expect(",")
    return first, p.value()


def _copy(p: OpParser) -> Op:
    dst, src = _pair(p)
    non_blocking = p.accept("non_blocking")
    return Copy(dst=dst, src=src, non_blocking=non_blocking, stream=p.stream(), prov=p.prov)


def _ensure_aligned(p: OpParser) -> Op:
    source = p.value()
    p.expect(",")
    alignment = p.integer()
    result = p.typed() if p.tokens[p.at] == ":" else p.result(source.type)
    return EnsureAligned(source=source, result=result, alignment=alignment, prov=p.prov)


def _resize_storage(p: OpParser) -> Op:
    p.no_result()
    target = p.value()
    p.expect(",")
    return ResizeStorage(target=target, nbytes=p.expr(), prov=p.prov)


def _set_storage(p: OpParser) -> Op:
    target, source = _pair(p)
    return SetStorage(target=target, source=source, prov=p.prov)


def _view_in(mode: ViewMode) -> Callable[[OpParser], Op]:
    def view(p: OpParser) -> Op:
        source = p.value()
        offset = p.expr() if p.accept("+") else _ZERO
        return View(source=source, result=p.typed(), offset=offset, mode=mode, prov=p.prov)

    return view


def _launch(p: OpParser) -> Op:
    p.no_result()
    kernel, args = p.reference(), p.args()
    grid = p.group("grid", p.expr)
    extents = p.group("extents", p.expr)
    return Launch(kernel=kernel, args=args, grid=grid, extents=extents, stream=p.stream(), prov=p.prov)


def _call(p: OpParser) -> Op:
    target = p.target()
    args, kwargs = p.call_args()
    stream = p.stream()
    result = p.typed() if p.wanted else None
    return CallExtern(target=target, args=args, kwargs=kwargs, result=result, stream=stream, prov=p.prov)


def _unpack(p: OpParser) -> Op:
    source = p.value()
    path: list[int | str] = []
    while p.accept("["):
        path.append(p.string() if p.tokens[p.at][:1] == '"' else p.integer("an index or a key"))
        p.expect("]")
    return Unpack(source=source, path=tuple(path), result=p.typed(), prov=p.prov)


def _define(p: OpParser) -> Op:
    p.no_result()
    start = p.at
    symbol = p.name("a symbol")
    if symbol not in p.symbols:
        p.fail("WIR551", f"symbol {symbol} is not declared", start, hint="declare it, or check its name")
    p.expect("=")
    return Define(symbol=symbol, expr=p.expr(), prov=p.prov)


def _assert_layout(p: OpParser) -> Op:
    p.no_result()
    tensor, sizes, strides = p.value(), p.exprs("[", "]"), p.exprs("[", "]")
    alignment = p.parenthesised_integer("align", 0)
    message = p.optional_string()
    return AssertLayout(
        tensor=tensor, sizes=sizes, strides=strides, alignment=alignment, message=message, prov=p.prov
    )


def _assert(p: OpParser) -> Op:
    p.no_result()
    return AssertExpr(condition=p.expr(), message=p.optional_string(), prov=p.prov)


def _assert_finite(p: OpParser) -> Op:
    p.no_result()
    return AssertFinite(tensor=p.value(), message=p.optional_string(), prov=p.prov)


def _cond(p: OpParser) -> Op:
    predicate = p.arg()
    p.expect("then")
    true_fn = p.reference()
    p.expect("else")
    false_fn, args = p.reference(), p.args()
    results = p.typed_results()
    return Conditional(
        predicate=predicate, true_fn=true_fn, false_fn=false_fn, args=args, results=results, prov=p.prov
    )


def _while(p: OpParser) -> Op:
    cond_fn = p.reference()
    p.expect("do")
    body_fn = p.reference()
    p.expect("carried")
    carried = p.args()
    captured = p.args() if p.accept("captured") else ()
    stacked = p.accept("stacked")
    return WhileLoop(
        cond_fn=cond_fn,
        body_fn=body_fn,
        carried=carried,
        captured=captured,
        stacked=stacked,
        results=p.typed_results(),
        prov=p.prov,
    )


def _call_subgraph(p: OpParser) -> Op:
    function, args = p.reference(), p.args()
    return CallSubgraph(function=function, args=args, results=p.typed_results(), prov=p.prov)


def _return(p: OpParser) -> Op:
    p.no_result()
    if p.tokens[p.at] == "\n" or p.tokens[p.at][:1] == "#":
        return Return(values=(), prov=p.prov)
    values = [p.arg()]
    while p.accept(","):
        values.append(p.arg())
    return Return(values=tuple(values), prov=p.prov)


def _record_event(p: OpParser) -> Op:
    device, stream = p.device_suffix(), p.stream()
    result = p.typed() if p.tokens[p.at] == ":" else p.result(_EVENT)
    return RecordEvent(result=result, device=device, stream=stream, prov=p.prov)


def _wait_event(p: OpParser) -> Op:
    p.no_result()
    return WaitEvent(event=p.value(), device=p.device_suffix(), stream=p.stream(), prov=p.prov)


def _sync_event(p: OpParser) -> Op:
    p.no_result()
    return SyncEvent(event=p.value(), prov=p.prov)


def _collective(p: OpParser) -> Op:
    target = p.target()
    args, kwargs = p.call_args()
    p.expect("group")
    p.expect("(")
    group = p.string("a group name")
    p.expect(")")
    stream = p.stream()
    return CollectiveStart(
        target=target,
        args=args,
        kwargs=kwargs,
        group=group,
        stream=stream,
        results=p.typed_results(),
        prov=p.prov,
    )


def _wait(p: OpParser) -> Op:
    return Wait(source=p.value(), result=p.typed(), prov=p.prov)


def _comment(p: OpParser) -> Op:
    p.no_result()
    return Comment(text=p.string(), prov=p.prov)


def _debug(p: OpParser) -> Op:
    p.no_result()
    mode = p.choice(_DEBUG_MODES, "debug mode")
    values: list[Value] = []
    if p.tokens[p.at][:1] == "%":
        values.append(p.value())
        while p.accept(","):
            values.append(p.value())
    return DebugValue(values=tuple(values), mode=mode, label=p.optional_string(), prov=p.prov)


OP_PARSERS: dict[str, Callable[[OpParser], Op]] = {
    "alloc_storage": _alloc_storage,
    "free": _free,
    "drop": _drop,
    "copy": _copy,
    "ensure_aligned": _ensure_aligned,
    "resize_storage": _resize_storage,
    "set_storage": _set_storage,
    "view": _view_in(ViewMode.ALIAS),
    "reuse": _view_in(ViewMode.REUSE),
    "launch": _launch,
    "call": _call,
    "unpack": _unpack,
    "define": _define,
    "assert_layout": _assert_layout,
    "assert": _assert,
    "assert_finite": _assert_finite,
    "cond": _cond,
    "while": _while,
    "call_subgraph": _call_subgraph,
    "return": _return,
    "record_event": _record_event,
    "wait_event": _wait_event,
    "sync_event": _sync_event,
    "collective": _collective,
    "wait": _wait,
    "comment": _comment,
    "debug": _debug,
}
"""Every word that starts an op; a test shows that each op class is read by one of them."""
