"""Memory that is kept from call to call: which storages may be, how they share it, and the text that makes it.

A storage may be kept where no caller can come to hold it: the program itself frees it. Storages that are not alive at the
same time share memory, which is right as long as all work goes to one stream, in order. The tensors over kept memory are
made together with it, so that a call finds them ready.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.writer import tuple_text
from wrapper_ir.expr import Expr, Int
from wrapper_ir.ops import AllocStorage, Free, Op, ResizeStorage, SetStorage, View, ZeroMode
from wrapper_ir.types import CPU, DType, MemoryKind, StorageType, TensorType
from wrapper_ir.values import Value

__all__ = ["KeptBuffers", "plan_kept", "write_new_buffers", "write_take"]

_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, slots=True)
class _Window:
    """A tensor over a block, `offset` bytes behind its begin."""

    block: int
    type: TensorType
    offset: int


@dataclass(frozen=True, slots=True)
class _Block:
    """Bytes that storages share one after the other; those that are zero at first belong to one storage alone."""

    nbytes: int
    zero: bool


@dataclass(slots=True)
class KeptBuffers:
    """The blocks, the tensors over them by the names that they have in a call, and the values that they stand for."""

    blocks: list[_Block] = field(default_factory=list)
    windows: dict[_Window, str] = field(default_factory=dict)


def plan_kept(scope: FunctionScope) -> KeptBuffers:
    """What the function may keep; the names of the values are put into the scope. Nothing where it is not asked for, or
    where work goes to several streams or moves memory under tensors."""
    plan, body = KeptBuffers(), scope.function.body
    if not scope.module.options.keep_buffers or scope.module.options.poison is not None:
        return plan
    # stream: of ops that have one
    if any(isinstance(op, ResizeStorage | SetStorage) or getattr(op, "stream", 0) for op in body):
        return plan
    storages = set(_candidates(scope))
    places: dict[Value, tuple[int, int]] = {}  # block and offset
    spare: list[int] = []
    for op in body:
        match op:
            case AllocStorage(result=storage) if storage in storages:
                places[storage] = (_block_for(op, spare, plan), 0)
                if op.zero is ZeroMode.CALL or not all(map(_is_static, scope.users[storage])):
                    _add(storage, _bytes_of(storage), places[storage], plan, scope)
            case Free(storage=storage) if storage in storages:
                block = places[storage][0]
                if not plan.blocks[block].zero:
                    spare.append(block)
            case View(source=source, result=result, offset=Int(offset)) if source in places and _is_static(
                op
            ):
                block, start = places[source]
                places[result] = (block, start + offset)
                assert isinstance(result.type, TensorType)
                _add(result, result.type, places[result], plan, scope)
    return plan


def _candidates(scope: FunctionScope) -> Iterator[Value]:
    """Storages of a known size on the program's device that are viewed and freed, and nothing else."""
    target = scope.module.program.target.device
    freed = {op.storage for op in scope.function.body if isinstance(op, Free)}
    for storage, users in scope.users.items():
        type = storage.type
        if (
            isinstance(type, StorageType)
            and isinstance(type.nbytes, Int)
            and type.device == target
            and target.type in _DEVICES
            and type.space.kind is MemoryKind.DEFAULT
            and storage in freed
            and all(isinstance(op, View | Free) for op in users)
        ):
            yield storage


def _is_static(op: Op) -> bool:
    """Whether a view's place is known before any call; other ops have none."""
    if not isinstance(op, View):
        return True
    type = op.result.type
    parts: tuple[Expr, ...] = (*type.sizes, *type.strides) if isinstance(type, TensorType) else ()
    return isinstance(type, TensorType) and all(isinstance(e, Int) for e in (*parts, op.offset))


def _block_for(op: AllocStorage, spare: list[int], plan: KeptBuffers) -> int:
    """The smallest free block that is large enough, or a new one."""
    nbytes = _size(op.result)
    zero = op.zero is ZeroMode.ONCE
    fitting = [] if zero else [i for i in spare if plan.blocks[i].nbytes >= nbytes]
    if fitting:
        block = min(fitting, key=lambda i: (plan.blocks[i].nbytes, i))
        spare.remove(block)
        return block
    plan.blocks.append(_Block(nbytes, zero))
    return len(plan.blocks) - 1


def _size(storage: Value) -> int:
    assert isinstance(storage.type, StorageType)
    assert isinstance(storage.type.nbytes, Int)
    return storage.type.nbytes.value


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
            for number, block in enumerate(plan.blocks):
                zero = ".zero_()" if block.zero else ""
                out.line(f"memory{number} = {empty}(({max(block.nbytes, 1)},), (1,), torch.uint8){zero}")
            for window, name in plan.windows.items():
                sizes, strides = (
                    tuple_text([str(e) for e in es]) for es in (window.type.sizes, window.type.strides)
                )
                dtype = f"torch.{window.type.dtype.torch_name}"
                head = f"{name} = {module.helper(Helper.WINDOW)}("
                out.items(head, [f"memory{window.block}", dtype, sizes, strides, str(window.offset)], ")")
        names = list(plan.windows.values())
        out.items("return (", names, ",)" if len(names) == 1 else ")")
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
