"""Writes the allocation and use of memory that persists between calls (`FunctionPlan.persistent`).

The tensors over persistent memory are created with it, and reused by each call.
"""

from __future__ import annotations

from py_wrapper.emit.helpers import Helper
from py_wrapper.emit.scope import FunctionScope
from py_wrapper.emit.writer import tuple_text
from wrapper_ir import ir


def name_persistent(scope: FunctionScope) -> None:
    """Names the tensors over persistent memory, whose names are fixed throughout a call."""
    memory = scope.plan.persistent
    scope.persistent_names = [scope.names(window.name) for window in memory.windows]
    scope.persistent = {value: scope.persistent_names[number] for value, number in memory.values.items()}
    if memory.windows and not memory.is_held:
        scope.resize_names = [scope.names(f"resize_{storage.name}") for storage in memory.storages]


def write_new_buffers(scope: FunctionScope) -> None:
    """Writes the function that creates one set of buffers, and the pool of unused sets."""
    out, module, plan = scope.out, scope.module, scope.plan.persistent
    device = module.program.target.device
    empty = module.helper(Helper.EMPTY if device == ir.CPU else Helper.EMPTY_CUDA)
    out.line()
    out.line()
    with out.block("def new_buffers():"):
        clause = "" if plan.is_held else ", which calls allocate"
        out.line(
            f'"""Memory that no caller sees{clause}, and the tensors over it, for one call at a time."""'
        )
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
    """Writes the line that takes a set of buffers at the start of a call; returns the texts of its key and of
    the set."""
    out, buffers = scope.out, scope.names("buffers")
    key = "0"
    if scope.module.program.target.device != ir.CPU:
        key = scope.names("key")
        out.line(f"{key} = {scope.module.helper(Helper.STREAM_KEY)}()")
    out.line(f"{buffers} = buffer_pool.take({key})")
    out.unpack([*scope.resize_names, *scope.persistent_names], buffers)
    return key, buffers
