"""The text that makes memory which is kept from call to call, and takes it: `wrapper_ir.analysis.kept` says which may be.

The tensors over kept memory are made together with it, so that a call finds them ready.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.writer import tuple_text
from wrapper_ir.analysis.kept import KeptBlock, plan_kept
from wrapper_ir.expr import Expr, Int
from wrapper_ir.ops import AllocStorage, View, ZeroMode
from wrapper_ir.types import CPU, DType, StorageType, TensorType
from wrapper_ir.values import Value

__all__ = ["KeptBuffers", "name_kept", "write_new_buffers", "write_take"]


@dataclass(frozen=True, slots=True)
class _Window:
    """A tensor over a block, `offset` bytes behind its begin."""

    block: int
    type: TensorType
    offset: int


@dataclass(slots=True)
class KeptBuffers:
    """The blocks, the tensors over them by the names that they have in a call, and the values that they stand for."""

    blocks: list[KeptBlock] = field(default_factory=list)
    windows: dict[_Window, str] = field(default_factory=dict)


def name_kept(scope: FunctionScope) -> KeptBuffers:
    """What the function keeps; the names of the values are put into the scope. Nothing where it is not asked for."""
    if not scope.module.options.keep_buffers or scope.module.options.poison is not None:
        return KeptBuffers()
    memory = plan_kept(scope.function, scope.module.program.target.device, scope.users)
    plan = KeptBuffers(memory.blocks)
    places: dict[Value, tuple[int, int]] = {}  # block and offset
    for op in scope.function.body:
        match op:
            case AllocStorage(result=storage) if storage in memory.places:
                places[storage] = (memory.places[storage], 0)
                views = scope.slots.views.get(storage, ())
                if op.zero is ZeroMode.CALL or not all(_is_static(view, at) for view, at in views):
                    _add(storage, _bytes_of(storage), places[storage], plan, scope)
            case View(result=result):
                source, at = scope.slots.place(op.source, op.offset)
                if source not in places or not isinstance(at, Int) or not _is_static(op, at):
                    continue
                block, start = places[source]
                places[result] = (block, start + at.value)
                assert isinstance(result.type, TensorType)
                _add(result, result.type, places[result], plan, scope)
            case _:
                pass
    return plan


def _is_static(view: View, at: Expr) -> bool:
    """Whether a view at this byte is known before any call."""
    type = view.result.type
    return all(isinstance(e, Int) for e in (*type.sizes, *type.strides, at))


def _bytes_of(storage: Value) -> TensorType:
    assert isinstance(storage.type, StorageType)
    return TensorType(DType.U8, (storage.type.nbytes,), (Int(1),), storage.type.device)


def _add(
    value: Value, type: TensorType, place: tuple[int, int], plan: KeptBuffers, scope: FunctionScope
) -> None:
    window = _Window(place[0], type, place[1])
    if window not in plan.windows:
        plan.windows[window] = scope.names(value.name)
    scope.kept[value] = plan.windows[window]


def write_new_buffers(plan: KeptBuffers, scope: FunctionScope) -> None:
    """The function that makes one set of buffers, and what holds those that no call uses."""
    out, module = scope.out, scope.module
    device = module.program.target.device
    empty = module.helper(Helper.EMPTY if device == CPU else Helper.EMPTY_CUDA)
    out.line()
    out.line()
    with out.block("def new_buffers():"):
        out.line('"""Memory that no caller sees, and the tensors over it, for one call at a time."""')
        with out.block("with torch.inference_mode(False):"):
            memory = [scope.names(f"memory{number}") for number in range(len(plan.blocks))]
            for name, block in zip(memory, plan.blocks, strict=True):
                zero = ".zero_()" if block.zero else ""
                out.line(f"{name} = {empty}(({max(block.nbytes, 1)},), (1,), torch.uint8){zero}")
            for window, name in plan.windows.items():
                sizes, strides = (
                    tuple_text([str(e) for e in es]) for es in (window.type.sizes, window.type.strides)
                )
                dtype = f"torch.{window.type.dtype.torch_name}"
                head = f"{name} = {module.helper(Helper.WINDOW)}("
                out.items(head, [memory[window.block], dtype, sizes, strides, str(window.offset)], ")")
        names = list(plan.windows.values())
        out.tuple("return ", names)
    out.line()
    out.line()
    out.line(f"spare = {module.runtime('SpareBuffers')}(new_buffers)")


def write_take(plan: KeptBuffers, scope: FunctionScope) -> tuple[str, str]:
    """At the begin of a call: takes a set of buffers. Returns the texts of its key and of the set."""
    out, buffers = scope.out, scope.names("buffers")
    key = "0"
    if scope.module.program.target.device != CPU:
        key = scope.names("key")
        out.line(f"{key} = {scope.module.helper(Helper.STREAM_KEY)}()")
    out.line(f"{buffers} = spare.take({key})")
    out.unpack(list(plan.windows.values()), buffers)
    return key, buffers
