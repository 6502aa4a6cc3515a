"""Ops as text: one line each, from a table by op class."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wrapper_ir.expr import Int, print_expr
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
    DebugValue,
    Define,
    Drop,
    EnsureAligned,
    Free,
    Launch,
    Op,
    OpBase,
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
from wrapper_ir.quoting import quote, symbol_name, target_name, value_name
from wrapper_ir.text.printer_types import TypePrinter, space_text
from wrapper_ir.types import MemorySpace, OpaqueKind, OpaqueType, StorageType, TensorType
from wrapper_ir.values import Value

__all__ = ["OP_PRINTERS", "alloc_text", "op_text"]

_ZERO = Int(0)
_EVENT = OpaqueType(OpaqueKind.EVENT)
_DEFAULT_SPACE = MemorySpace()


def op_text(op: Op, types: TypePrinter) -> str:
    """The line of `op`, without indentation and provenance mark."""
    return OP_PRINTERS[type(op)](op, types)


def alloc_text(storage: Op, view: Op, types: TypePrinter) -> str | None:
    """The one-line form of an allocation and the view of all of it; None where that would lose something."""
    if type(view) is not View or type(storage) is not AllocStorage or view.source is not storage.result:
        return None
    made, type_ = storage.result.type, view.result.type
    fits = (
        isinstance(made, StorageType)
        and isinstance(type_, TensorType)
        and view.mode is ViewMode.ALIAS
        and view.offset == _ZERO
        and storage.result.name == f"{view.result.name}.s"
        and storage.prov == view.prov
        and made.device == type_.device
        and made.space == _DEFAULT_SPACE
        and len(type_.sizes) == len(type_.strides)
        and made.nbytes == types.extent(type_)
    )
    if not fits:
        return None
    return f"{_value(view.result)} = alloc {types.type(type_)}{_alloc_options(storage)}"


def _value(value: Value) -> str:
    return f"%{value_name(value.name)}"


def _values(values: Sequence[Value]) -> str:
    return ", ".join(map(_value, values))


def _ref(name: str) -> str:
    return f"@{value_name(name)}"


def _stream(stream: int) -> str:
    return f" stream({stream})" if stream else ""


def _message(text: str) -> str:
    return f" {quote(text)}" if text else ""


def _results(results: Sequence[Value]) -> str:
    return f"{_values(results)} = " if results else ""


def _typed(results: Sequence[Value], types: TypePrinter) -> str:
    return f" : {', '.join(types.type(r.type) for r in results)}" if results else ""


def _alloc_options(op: AllocStorage) -> str:
    purpose = f" {op.purpose.value}" if op.purpose is not AllocPurpose.PLAIN else ""
    zero = f" zero({op.zero.value})" if op.zero is not ZeroMode.NONE else ""
    return f"{purpose}{zero}{_stream(op.stream)}"


def _alloc_storage(op: AllocStorage, types: TypePrinter) -> str:
    made = op.result.type
    if not isinstance(made, StorageType):  # the verifier refuses it, with this line
        return f"{_value(op.result)} = alloc_storage : {types.type(made)}{_alloc_options(op)}"
    space = space_text(made.space)
    where = f"{types.at(made.device)}{' ' if space else ''}{space}"
    return f"{_value(op.result)} = alloc_storage {print_expr(made.nbytes)}{where}{_alloc_options(op)}"


def _free(op: Free, types: TypePrinter) -> str:
    return f"free {_value(op.storage)}"


def _drop(op: Drop, types: TypePrinter) -> str:
    return f"drop {_value(op.value)}"


def _copy(op: Copy, types: TypePrinter) -> str:
    non_blocking = " non_blocking" if op.non_blocking else ""
    return f"copy {_value(op.dst)}, {_value(op.src)}{non_blocking}{_stream(op.stream)}"


def _ensure_aligned(op: EnsureAligned, types: TypePrinter) -> str:
    typed = "" if op.result.type == op.source.type else _typed((op.result,), types)
    return f"{_value(op.result)} = ensure_aligned {_value(op.source)}, {op.alignment}{typed}"


def _resize_storage(op: ResizeStorage, types: TypePrinter) -> str:
    return f"resize_storage {_value(op.target)}, {print_expr(op.nbytes)}"


def _set_storage(op: SetStorage, types: TypePrinter) -> str:
    return f"set_storage {_value(op.target)}, {_value(op.source)}"


def _view(op: View, types: TypePrinter) -> str:
    word = "view" if op.mode is ViewMode.ALIAS else "reuse"
    offset = "" if op.offset == _ZERO else f" + {print_expr(op.offset)}"
    return f"{_value(op.result)} = {word} {_value(op.source)}{offset} : {types.type(op.result.type)}"


def _launch(op: Launch, types: TypePrinter) -> str:
    grid = f" grid({types.exprs(op.grid)})" if op.grid else ""
    extents = f" extents({types.exprs(op.extents)})" if op.extents else ""
    return f"launch {_ref(op.kernel)}({types.args(op.args)}){grid}{extents}{_stream(op.stream)}"


def _call(op: CallExtern, types: TypePrinter) -> str:
    results = () if op.result is None else (op.result,)
    call = f"call {target_name(op.target)}({types.call_args(op.args, op.kwargs)}){_stream(op.stream)}"
    return f"{_results(results)}{call}{_typed(results, types)}"


def _unpack(op: Unpack, types: TypePrinter) -> str:
    path = "".join(f"[{quote(key) if isinstance(key, str) else int(key)}]" for key in op.path)
    return f"{_value(op.result)} = unpack {_value(op.source)}{path} : {types.type(op.result.type)}"


def _define(op: Define, types: TypePrinter) -> str:
    return f"define {symbol_name(op.symbol)} = {print_expr(op.expr)}"


def _assert_layout(op: AssertLayout, types: TypePrinter) -> str:
    align = f" align({op.alignment})" if op.alignment else ""
    layout = f"[{types.exprs(op.sizes)}] [{types.exprs(op.strides)}]"
    return f"assert_layout {_value(op.tensor)} {layout}{align}{_message(op.message)}"


def _assert_expr(op: AssertExpr, types: TypePrinter) -> str:
    return f"assert {print_expr(op.condition)}{_message(op.message)}"


def _assert_finite(op: AssertFinite, types: TypePrinter) -> str:
    return f"assert_finite {_value(op.tensor)}{_message(op.message)}"


def _cond(op: Conditional, types: TypePrinter) -> str:
    branches = f"then {_ref(op.true_fn)} else {_ref(op.false_fn)}"
    call = f"cond {types.arg(op.predicate)} {branches} ({types.args(op.args)})"
    return f"{_results(op.results)}{call}{_typed(op.results, types)}"


def _while(op: WhileLoop, types: TypePrinter) -> str:
    captured = f" captured({types.args(op.captured)})" if op.captured else ""
    stacked = " stacked" if op.stacked else ""
    loop = f"while {_ref(op.cond_fn)} do {_ref(op.body_fn)} carried({types.args(op.carried)})"
    return f"{_results(op.results)}{loop}{captured}{stacked}{_typed(op.results, types)}"


def _call_subgraph(op: CallSubgraph, types: TypePrinter) -> str:
    call = f"call_subgraph {_ref(op.function)}({types.args(op.args)})"
    return f"{_results(op.results)}{call}{_typed(op.results, types)}"


def _return(op: Return, types: TypePrinter) -> str:
    return f"return {types.args(op.values)}" if op.values else "return"


def _record_event(op: RecordEvent, types: TypePrinter) -> str:
    typed = "" if op.result.type == _EVENT else _typed((op.result,), types)
    return f"{_value(op.result)} = record_event{types.at(op.device)}{_stream(op.stream)}{typed}"


def _wait_event(op: WaitEvent, types: TypePrinter) -> str:
    return f"wait_event {_value(op.event)}{types.at(op.device)}{_stream(op.stream)}"


def _sync_event(op: SyncEvent, types: TypePrinter) -> str:
    return f"sync_event {_value(op.event)}"


def _collective(op: CollectiveStart, types: TypePrinter) -> str:
    call = f"collective {target_name(op.target)}({types.call_args(op.args, op.kwargs)})"
    typed = _typed(op.results, types)
    return f"{_results(op.results)}{call} group({quote(op.group)}){_stream(op.stream)}{typed}"


def _wait(op: Wait, types: TypePrinter) -> str:
    return f"{_value(op.result)} = wait {_value(op.source)} : {types.type(op.result.type)}"


def _comment(op: Comment, types: TypePrinter) -> str:
    return f"comment {quote(op.text)}"


def _debug(op: DebugValue, types: TypePrinter) -> str:
    values = f" {_values(op.values)}" if op.values else ""
    return f"debug {op.mode.value}{values}{_message(op.label)}"


# Keyed by op class; a test compares the keys with OP_CLASSES. The parameter types differ, hence `...`.
OP_PRINTERS: dict[type[OpBase], Callable[..., str]] = {
    AllocStorage: _alloc_storage,
    Free: _free,
    Drop: _drop,
    Copy: _copy,
    EnsureAligned: _ensure_aligned,
    ResizeStorage: _resize_storage,
    SetStorage: _set_storage,
    View: _view,
    Launch: _launch,
    CallExtern: _call,
    Unpack: _unpack,
    Define: _define,
    AssertLayout: _assert_layout,
    AssertExpr: _assert_expr,
    AssertFinite: _assert_finite,
    Conditional: _cond,
    WhileLoop: _while,
    CallSubgraph: _call_subgraph,
    Return: _return,
    RecordEvent: _record_event,
    WaitEvent: _wait_event,
    SyncEvent: _sync_event,
    CollectiveStart: _collective,
    Wait: _wait,
    Comment: _comment,
    DebugValue: _debug,
}
