"""Steps that create storages and views."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.builder import tensor_type
from wrapper_ir.expr import Expr, Float, Int
from wrapper_ir_tools.testing.catalogue import FILL, PROBE
from wrapper_ir_tools.testing.world import Held, Step, World, on_dense


def fill(w: World) -> None:
    """Appends an allocation and a launch that fills it."""
    out = w.alloc(w.type())
    extents: tuple[Expr, ...] = (ir.extent_bytes(out.type),) if w.rng.random() < 0.5 else ()
    value = Float(w.rng.choice((0.0, -0.0, 1.5, -3.25)))
    w.function.launch(FILL, (out.value, value, w.length(out)), extents=extents)
    out.ready = True


def workspace(w: World) -> None:
    """Appends a storage with options, and two tensors in it."""
    rng = w.rng
    zero = rng.choice(tuple(ir.ZeroMode))
    purpose = rng.choice((ir.AllocPurpose.PLAIN, ir.AllocPurpose.WORKSPACE))
    space = ir.MemorySpace()
    if not w.options.executable:
        space = rng.choice(
            (
                space,
                ir.MemorySpace(ir.MemoryKind.PINNED),
                ir.MemorySpace(ir.MemoryKind.SYMMETRIC, w.string(), next(w.fresh)),
                ir.MemorySpace(ir.MemoryKind.REGISTERED, w.string(), next(w.fresh)),
            )
        )
    type_ = ir.StorageType(Int(256), ir.CPU, space, alignment=rng.choice((4, 16, 64)))
    storage = w.function.value(w.name("ws"), type_)
    w.append(ir.AllocStorage(result=storage, purpose=purpose, zero=zero))
    root = next(w.fresh)
    zeroed = zero is ir.ZeroMode.CALL
    for k in range(2):
        view = w.function.view(w.name("part"), storage, tensor_type(ir.DType.F32, (16,)), 128 * k)
        if not zeroed:
            w.function.launch(FILL, (view, Float(1.0), Int(16)))
        # memory of a group is never returned
        if not type_.is_group_memory:
            w.hold(view, root=root, ready=True)


def pool(w: World) -> None:
    """Appends a pool in which two slots share the first bytes in turn, and a third slot beside them."""
    rng = w.rng
    first = w.function.alloc_storage(
        w.name("pool"), 256, purpose=ir.AllocPurpose.POOL, zero=rng.choice(tuple(ir.ZeroMode))
    )
    inner = w.function.slot(w.name("inner"), first, 64, 192) if rng.random() < 0.5 else first
    first_slot = w.function.slot(w.name("slot"), inner, 0, 64)
    beside = w.function.slot(w.name("slot"), inner, 128, 64)
    views = []
    for storage in (first_slot, beside):
        view = w.function.view(w.name("part"), storage, tensor_type(ir.DType.F32, (16,)))
        w.function.launch(FILL, (view, Float(1.0), Int(16)))
        views.append(view)
    w.function.launch(PROBE, (views[0], Int(1), Float(0.5)))
    zero = rng.choice((ir.ZeroMode.NONE, ir.ZeroMode.CALL))
    again = w.function.slot(w.name("slot"), inner, rng.choice((0, 32)), 64, zero=zero)
    view = w.function.view(w.name("part"), again, tensor_type(ir.DType.F32, (4, 4)))
    if zero is ir.ZeroMode.NONE:
        w.function.launch(FILL, (view, Float(2.0), Int(16)))
    for last in (view, views[1]):
        w.function.launch(PROBE, (last, Int(1), Float(0.5)))


@on_dense
def convert(w: World, source: Held) -> None:
    """Appends a copy to another dtype; nothing computes with it."""
    dtype = w.rng.choice((ir.DType.F64, ir.DType.BF16, ir.DType.F16, ir.DType.F64))
    into = w.function.alloc(w.name("cast"), tensor_type(dtype, source.type.sizes))
    w.append(ir.Copy(dst=into, src=source.value))
    w.hold(into)


@on_dense
def align(w: World, source: Held) -> None:
    """Appends ensure_aligned; the result may alias its source, so it is never written."""
    result = w.function.value(w.name("aligned"), source.value.type)
    w.append(ir.EnsureAligned(source=source.value, result=result, alignment=w.rng.choice((16, 64))))
    w.function.launch(PROBE, (result, Int(1), Float(0.5)))


def view(w: World) -> None:
    """Appends a transposed, shifted, broadcast or reinterpreted view."""
    source = w.pick(t for t in w.tensors if t.static == (4, 4) and t.dense)
    if source is None:
        return
    type_, offset = w.rng.choice(
        (
            (tensor_type(ir.DType.F32, (4, 4), (1, 4)), 0),
            (tensor_type(ir.DType.F32, (2, 4)), 32),
            (tensor_type(ir.DType.F32, (3, 4), (0, 1)), 16),
            (tensor_type(ir.DType.I32, (16,)), 0),
            (tensor_type(ir.DType.F32, (4,), (5,)), 0),
            (tensor_type(ir.DType.F32, (0, 4)), 0),
        )
    )
    result = w.function.view(w.name("v"), source.value, type_, offset)
    w.hold(result, root=source.root, ready=source.ready, own=source.own, mutable=False)


def reuse(w: World) -> None:
    """Appends a reuse of an owned storage under a new name, which ends its other names."""
    source = w.pick(t for t in w.tensors if t.own and t.ready and t.dense and t.static)
    if source is None or any(t.root == source.root for t in w.tensors if t is not source):
        return
    dims = source.static or ()
    count = 1
    for d in dims:
        count *= d
    w.forget(source.root)
    result = w.function.view(
        w.name("reused"), source.value, tensor_type(ir.DType.F32, (count,)), mode=ir.ViewMode.REUSE
    )
    w.hold(result)


MEMORY_STEPS: tuple[Step, ...] = (fill, workspace, pool, convert, align, view, reuse)
