"""Translates allocations, in-place reuse and partial aliases."""

from __future__ import annotations

from torch._inductor import ir
from torch._inductor.scheduler import BaseSchedulerNode, ExternKernelSchedulerNode
from torch._inductor.virtualized import V

from inductor_frontend.record.events import Alias, Allocate, Reuse
from inductor_frontend.scope.scope import Scope
from wrapper_ir.expr import Int, mul
from wrapper_ir.ir import MemoryKind, MemorySpace, TensorType, ViewMode, ZeroMode, extent_bytes


def _type(scope: Scope, buffer: ir.Buffer) -> TensorType:
    return scope.tensor_type(buffer.get_dtype(), buffer.get_size(), buffer.get_stride(), buffer.get_device())


def allocate(scope: Scope, event: Allocate) -> None:
    """Emits an AllocStorage of the size that Inductor reserves (including padding), and a View with the
    buffer's layout."""
    name = event.buffer.get_name()
    if name not in scope.graph.removed_buffers:
        scope.function.prov = scope.provenance.read(event.buffer.origins, name)
        own_storage(scope, event.buffer)


def own_storage(scope: Scope, buffer: ir.Buffer) -> None:
    """Emits the storage of a buffer and the buffer's tensor in it."""
    name = buffer.get_name()
    type = _type(scope, buffer)
    nbytes = extent_bytes(type)
    if name in scope.graph.buffer_to_padded_size:
        elements = scope.expr(V.graph.get_allocation_storage_size(buffer))
        nbytes = mul(elements, Int(type.dtype.itemsize))
    space = _space(scope, buffer)
    zero = ZeroMode.CALL if _is_undefined(buffer) else ZeroMode.NONE
    storage = scope.function.alloc_storage(f"{name}.s", nbytes, device=type.device, space=space, zero=zero)
    scope.bind(name, scope.make_view(name, storage, type))


def _space(scope: Scope, buffer: ir.Buffer) -> MemorySpace:
    """Returns the memory space of a buffer. Communication buffers are numbered; `with_allocation_ids`
    derives their ids."""
    if buffer.get_is_pinned():
        return MemorySpace(MemoryKind.PINNED)
    layout = buffer.get_output_spec()
    if isinstance(layout, ir.CommBufferLayout):
        return MemorySpace(MemoryKind.SYMMETRIC, layout.group_name, next(scope.shared.communication_buffers))
    return MemorySpace()


def _is_undefined(buffer: ir.Buffer) -> bool:
    """Returns whether a kernel reads memory that the model leaves undefined (`torch.empty`, filled part by
    part).

    Any bytes are correct; zeros make each call deterministic. Operators write the outputs that are passed to
    them.
    """
    if not isinstance(buffer, ir.ComputedBuffer) or 0 not in buffer.data.get_size() or 0 in buffer.get_size():
        return False  # Inductor represents memory that it does not compute as a loop without iterations
    name = buffer.get_name()
    scheduled = V.graph.scheduler.name_to_buf.get(name)
    return scheduled is not None and any(_reads(user.node, name) for user in scheduled.users)


def _reads(node: object, name: str) -> bool:
    if not isinstance(node, BaseSchedulerNode) or name not in {dep.name for dep in node.read_writes.reads}:
        return False
    return not (
        isinstance(node, ExternKernelSchedulerNode)
        and any(name in output.get_mutations() for output in node.outputs)
    )


def reuse(scope: Scope, event: Reuse) -> None:
    """Emits a View that transfers the old buffer's storage to the new buffer."""
    name = event.new.get_name()
    if name in scope.graph.removed_buffers:
        return
    scope.function.prov = scope.provenance.read(event.new.origins, name)
    old = scope.value(event.old.get_name())
    scope.bind(name, scope.make_view(name, old, _type(scope, event.new), mode=ViewMode.REUSE))


def alias(scope: Scope, event: Alias) -> None:
    """Emits the View of a buffer that is part of another buffer."""
    name = event.buffer.get_name()
    if name in scope.graph.removed_buffers:
        return
    scope.function.prov = scope.provenance.read(event.buffer.origins, name)
    view = event.view
    base = scope.value(view.data.get_name())
    assert isinstance(base.type, TensorType)
    offset = mul(scope.expr(view.layout.offset), Int(base.type.dtype.itemsize))
    scope.bind(name, scope.make_view(name, base, scope.layout_type(view.layout), offset))
