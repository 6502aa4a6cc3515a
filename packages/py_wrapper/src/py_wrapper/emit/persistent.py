"""The text that makes memory which persists from call to call, and takes it: `FunctionPlan.persistent` says what is.

The tensors over persistent memory are made together with it, so that a call finds them ready.
"""

from __future__ import annotations

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.writer import tuple_text
from wrapper_ir import ir


def name_persistent(scope: FunctionScope) -> None:
    """Names for the tensors over persistent memory, which they have throughout a call."""
    memory = scope.plan.persistent
    scope.persistent_names = [scope.names(window.name) for window in memory.windows]
    scope.persistent = {value: scope.persistent_names[number] for value, number in memory.values.items()}
    if memory.windows and not memory.is_held:
        scope.resize_names = [scope.names(f"resize_{storage.name}") for storage in memory.storages]


def write_new_buffers(scope: FunctionScope) -> None:
    """The function that makes one set of buffers, and what holds those that no call uses."""
    out, module, plan = scope.out, scope.module, scope.plan.persistent
    device = module.program.target.device
    empty = module.helper(Helper.EMPTY if device == ir.CPU else Helper.EMPTY_CUDA)
    out.line()
    out.line()
    with out.block("def new_buffers():"):
        held = "" if plan.is_held else ", which calls allocate"
        out.line(f'"""Memory that no caller sees{held}, and the tensors over it, for one call at a time."""')
        with out.block("with torch.inference_mode(False):"):
            memory = [scope.names(f"memory{number}") for number in range(len(plan.blocks))]
            for name, block in zip(memory, plan.blocks, strict=True):
                zero = ".zero_()" if block.zero else ""
                out.line(f"{name} = {empty}(({max(block.nbytes, 1)},), (1,), torch.uint8){zero}")
            for window, name in zip(plan.windows, scope.persistent_names, strict=True):
                sizes, strides = (
                    tuple_text([str(e) for e in es]) for es in (window.type.sizes, window.type.strides)
                )
                dtype = f"torch.{window.type.dtype.torch_name}"
                head = f"{name} = {module.helper(Helper.WINDOW)}("
                out.items(head, [memory[window.block], dtype, sizes, strides, str(window.offset)], ")")
            for name, resize in zip(memory, scope.resize_names, strict=bool(scope.resize_names)):
                out.line(f"{resize} = {name}.untyped_storage().resize_")
                out.line(f"{resize}(0)")
        out.tuple("return ", [*scope.resize_names, *scope.persistent_names])
    out.line()
    out.line()
    out.line(f"buffer_pool = {module.runtime('BufferPool')}(new_buffers)")


def write_take(scope: FunctionScope) -> tuple[str, str]:
    """At the begin of a call: takes a set of buffers. Returns the texts of its key and of the set."""
    out, buffers = scope.out, scope.names("buffers")
    key = "0"
    if scope.module.program.target.device != ir.CPU:
        key = scope.names("key")
        out.line(f"{key} = {scope.module.helper(Helper.STREAM_KEY)}()")
    out.line(f"{buffers} = buffer_pool.take({key})")
    out.unpack([*scope.resize_names, *scope.persistent_names], buffers)
    return key, buffers
