"""Steps: each appends a few ops to a random function, or nothing where there is nothing to work on."""

from __future__ import annotations

from collections.abc import Callable

from wrapper_ir.builder import tensor_type
from wrapper_ir.expr import Bool, Cmp, CmpOp, Expr, Float, Int, Item, Max, Or, SizeOf, StrideOf
from wrapper_ir.layout import extent_bytes
from wrapper_ir.ops import (
    AllocPurpose,
    Arg,
    AssertExpr,
    AssertFinite,
    AssertLayout,
    CollectiveStart,
    Comment,
    Copy,
    DebugMode,
    DebugValue,
    EnsureAligned,
    RecordEvent,
    SyncEvent,
    ViewMode,
    Wait,
    WaitEvent,
    ZeroMode,
)
from wrapper_ir.testing.catalogue import ADD, EXTERNS, FILL, FOREIGN, PROBE, RELU, SCALE
from wrapper_ir.testing.numbers import random_bool, random_float, random_int
from wrapper_ir.testing.world import World
from wrapper_ir.types import (
    CPU,
    Device,
    DType,
    Layout,
    MemoryFormat,
    MemoryKind,
    MemorySpace,
    OpaqueKind,
    OpaqueType,
    TupleType,
)

__all__ = ["ACCELERATOR_STEPS", "CALLED_STEPS", "STEPS", "fill"]

Step = Callable[[World], None]


# --- memory


def fill(w: World) -> None:
    """alloc, launch that writes all."""
    out = w.alloc(w.type())
    extents: tuple[Expr, ...] = (extent_bytes(out.type),) if w.rng.random() < 0.5 else ()
    value = Float(w.rng.choice((0.0, -0.0, 1.5, -3.25)))
    w.function.launch(FILL, (out.value, value, w.length(out)), extents=extents)
    out.ready = True


def workspace(w: World) -> None:
    """Storage with options, and two tensors in it."""
    rng = w.rng
    zero = rng.choice(tuple(ZeroMode))
    purpose = rng.choice((AllocPurpose.PLAIN, AllocPurpose.WORKSPACE, AllocPurpose.POOL))
    space = MemorySpace()
    if not w.options.executable:
        space = rng.choice(
            (
                space,
                MemorySpace(MemoryKind.PINNED),
                MemorySpace(MemoryKind.SYMMETRIC, w.string(), rng.randrange(9)),
            )
        )
    name = w.name("ws")
    storage = w.function.alloc_storage(name, 256, space=space, purpose=purpose, zero=zero)
    root = next(w.fresh)
    zeroed = zero is ZeroMode.CALL
    for k in range(2):
        view = w.function.view(w.name("part"), storage, tensor_type(DType.F32, (16,)), 128 * k)
        held = w.hold(view, root=root, ready=zeroed)
        if not zeroed:
            w.function.launch(FILL, (view, Float(1.0), Int(16)))
            held.ready = True


def other_device(w: World) -> None:
    """A copy to wherever it goes, and back."""
    source = w.dense()
    if source is None:
        return
    device = w.device()
    there = w.function.alloc(w.name("there"), tensor_type(DType.F32, source.type.sizes, None, device))
    w.function.append(
        Copy(dst=there, src=source.value, non_blocking=w.rng.random() < 0.3, prov=w.function.prov)
    )
    back = w.alloc(source.type)
    w.function.append(Copy(dst=back.value, src=there, prov=w.function.prov))
    back.ready = True


def convert(w: World) -> None:
    """A copy into another dtype; nothing computes with it."""
    source = w.dense()
    if source is None:
        return
    dtype = w.rng.choice((DType.F64, DType.BF16, DType.F16, DType.F64))
    into = w.function.alloc(w.name("cast"), tensor_type(dtype, source.type.sizes))
    w.function.append(Copy(dst=into, src=source.value, prov=w.function.prov))
    w.hold(into)


def align(w: World) -> None:
    """ensure_aligned; the result may alias, so that nobody writes it."""
    source = w.dense()
    if source is None:
        return
    result = w.function.value(w.name("aligned"), source.value.type)
    w.function.append(
        EnsureAligned(
            source=source.value, result=result, alignment=w.rng.choice((16, 64)), prov=w.function.prov
        )
    )
    w.function.launch(PROBE, (result, Int(1), Float(0.5)))


# --- views


def view(w: World) -> None:
    """A transposed, shifted, broadcast or reinterpreted view."""
    source = w.pick(t for t in w.tensors if t.static == (4, 4) and t.dense)
    if source is None:
        return
    type_, offset = w.rng.choice(
        (
            (tensor_type(DType.F32, (4, 4), (1, 4)), 0),
            (tensor_type(DType.F32, (2, 4)), 32),
            (tensor_type(DType.F32, (3, 4), (0, 1)), 16),
            (tensor_type(DType.I32, (16,)), 0),
            (tensor_type(DType.F32, (4,), (5,)), 0),
            (tensor_type(DType.F32, (0, 4)), 0),
        )
    )
    made = w.function.view(w.name("v"), source.value, type_, offset)
    w.hold(made, root=source.root, ready=source.ready, own=source.own, mutable=False)


def reuse(w: World) -> None:
    """The bytes of a storage of our own under a new name; all its other names end."""
    source = w.pick(t for t in w.tensors if t.own and t.ready and t.dense and t.static)
    if source is None or any(t.root == source.root for t in w.tensors if t is not source):
        return
    dims = source.static or ()
    count = 1
    for d in dims:
        count *= d
    w.forget(source.root)
    made = w.function.view(
        w.name("reused"), source.value, tensor_type(DType.F32, (count,)), mode=ViewMode.REUSE
    )
    w.hold(made)


# --- kernels


def relu(w: World) -> None:
    """launch into a new tensor."""
    source = w.dense()
    if source is None:
        return
    out = w.alloc(source.type)
    w.function.launch(RELU, (source.value, out.value, w.length(source)))
    out.ready = True


def add(w: World) -> None:
    """launch of a kernel whose output may be one of its inputs."""
    a = w.dense()
    b = None if a is None else w.like(a)
    if a is None or b is None:
        return
    out = a if a.mutable and w.rng.random() < 0.4 and a.root != b.root else w.alloc(a.type)
    w.function.launch(ADD, (a.value, b.value, out.value, w.length(a)))
    out.ready = True


def scale(w: World) -> None:
    """launch in place."""
    x = w.pick(t for t in w.tensors if t.dense and t.ready and t.mutable)
    if x is not None:
        w.function.launch(SCALE, (x.value, Float(w.rng.choice((0.5, -1.0, 2.0))), w.length(x)))


def probe(w: World) -> None:
    """launch with expressions of all kinds."""
    x = w.dense()
    if x is not None:
        w.function.launch(PROBE, (x.value, random_int(w.rng, w.symbols), random_float(w.rng, w.symbols)))


def call_relu(w: World) -> None:
    """call with a fresh result, at times taken out of a nested result."""
    x = w.dense()
    if x is None:
        return
    name, kwargs = w.rng.choice(
        (
            ("aten::relu", ()),
            ("aten::gelu", (("approximate", "tanh"),)),
            ("aten::clone", (("memory_format", MemoryFormat.CONTIGUOUS),)),
        )
    )
    if w.rng.random() < 0.2:
        nested = w.call(name, (x.value,), kwargs, TupleType(), "nested")
        assert nested is not None
        w.hold(w.function.unpack(w.name("whole"), nested, (), x.type))
        return
    made = w.call(name, (x.value,), kwargs, x.type, "called")
    assert made is not None
    w.hold(made)


def call_out(w: World) -> None:
    """call of an out variant, and of a mutating operator."""
    a = w.dense()
    b = None if a is None else w.like(a)
    if a is None or b is None:
        return
    out = w.alloc(a.type)
    alpha: Arg = w.rng.choice((Int(2), Float(0.5)))
    w.call("aten::add.out", (a.value, b.value), (("alpha", alpha), ("out", out.value)))
    out.ready = True
    w.call("aten::sigmoid_", (out.value,))


def call_lists(w: World) -> None:
    """call with a list of tensors, of sizes, and with dtypes, devices, layouts."""
    x = w.pick(t for t in w.tensors if t.dense and t.ready and t.static and len(t.static) == 1)
    if x is not None and x.static is not None:
        made = w.call(
            "aten::cat", ((x.value, x.value), Int(0)), (), tensor_type(DType.F32, (2 * x.static[0],))
        )
        assert made is not None
        w.hold(made)
    dims = w.dims()
    type_ = tensor_type(DType.F32, dims)
    options: list[tuple[str, Arg]] = [("dtype", DType.F32), ("layout", Layout.STRIDED), ("device", CPU)]
    sizes = tuple(Int(d) if isinstance(d, int) else d for d in dims)
    zeros = w.call(
        "aten::zeros", (sizes,), (*options, ("pin_memory", w.rng.choice((None, Bool(False))))), type_
    )
    assert zeros is not None
    w.hold(zeros)


def call_topk(w: World) -> None:
    """call with two results."""
    x = w.pick(t for t in w.tensors if t.dense and t.ready and t.static == (16,))
    if x is None:
        return
    nested = w.call("aten::topk", (x.value, Int(2)), (("largest", Bool(True)),), TupleType(), "top")
    assert nested is not None
    w.hold(w.function.unpack(w.name("values"), nested, (0,), tensor_type(DType.F32, (2,))))
    if w.rng.random() < 0.7:
        w.hold(w.function.unpack(w.name("indices"), nested, (1,), tensor_type(DType.I64, (2,))))


def call_nonzero(w: World) -> None:
    """call with an unbacked size, which is defined from the result."""
    x = w.dense()
    if x is None:
        return
    size = w.symbol(backed=False)
    rank = len(x.type.sizes)
    found = w.call("aten::nonzero", (x.value,), (), tensor_type(DType.I64, (size, rank)), "found")
    assert found is not None
    w.function.define(size.name, SizeOf(found, 0))
    w.symbols.append(size)
    w.hold(found)


def call_reshape(w: World) -> None:
    """call whose result may alias its argument."""
    x = w.pick(t for t in w.tensors if t.ready and t.dense and t.static == (4, 4))
    if x is None:
        return
    made = w.call("aten::reshape", (x.value, (Int(2), Int(-1))), (), tensor_type(DType.F32, (2, 8)), "shaped")
    assert made is not None
    w.function.launch(PROBE, (made, random_int(w.rng, w.symbols), Float(0.5)))


# --- symbols and checks


def define(w: World) -> None:
    """define from sizes, parameters and other symbols."""
    x = w.pick(t for t in w.tensors if t.type.sizes)
    backed = w.rng.random() < 0.5
    if w.scalars and w.rng.random() < 0.4:
        symbol = w.symbol(backed=False, lower=None)
        w.function.define(symbol.name, Item(w.rng.choice(w.scalars)))
        return
    if x is not None and w.rng.random() < 0.5:
        dim = w.rng.randrange(len(x.type.sizes))
        atom = w.rng.choice((SizeOf(x.value, dim), StrideOf(x.value, dim)))
        w.function.define(w.symbol(backed=backed).name, atom + random_int(w.rng, w.symbols, 1))
        return
    w.function.define(w.symbol(backed=backed, lower=None).name, random_int(w.rng, w.symbols))


def check(w: World) -> None:
    """assertions that hold."""
    x = w.dense()
    prov = w.function.prov
    if x is not None:
        w.function.append(
            AssertLayout(
                tensor=x.value,
                sizes=x.type.sizes,
                strides=x.type.strides,
                alignment=w.rng.choice((0, 4)),
                message=w.string(),
                prov=prov,
            )
        )
    condition: Expr = Or((random_bool(w.rng, w.symbols), Cmp(CmpOp.LE, Int(0), Int(1))))
    w.function.append(AssertExpr(condition=condition, message=w.string(), prov=prov))


def finite(w: World) -> None:
    """assert_finite of something that is: a fresh fill."""
    fill(w)
    w.function.append(AssertFinite(tensor=w.tensors[-1].value, message=w.string(), prov=w.function.prov))


def debug(w: World) -> None:
    """comments and shown values."""
    w.function.append(Comment(text=w.string(), prov=w.function.prov))
    ready = [t.value for t in w.tensors if t.ready]
    shown = tuple(w.rng.sample(ready, min(len(ready), w.rng.randrange(1, 3))))
    mode = w.rng.choice((DebugMode.NAMES, DebugMode.PRINT) if w.options.executable else tuple(DebugMode))
    w.function.append(DebugValue(values=shown, mode=mode, label=w.string(), prov=w.function.prov))


# --- what only accelerators and several processes have


def streams(w: World) -> None:
    """A launch on another stream between events."""
    x = w.dense()
    if x is None:
        return
    f, prov = w.function, w.function.prov
    device = w.rng.choice((CPU, w.program.target.device, Device("cuda", 1)))
    out = w.alloc(x.type)
    before = f.value(w.name("e"), OpaqueType(OpaqueKind.EVENT))
    f.append(RecordEvent(result=before, device=CPU, prov=prov))
    f.append(WaitEvent(event=before, device=CPU, stream=1, prov=prov))
    f.launch(RELU, (x.value, out.value, w.length(x)), stream=1)
    after = f.value(w.name("e"), OpaqueType(OpaqueKind.EVENT))
    f.append(RecordEvent(result=after, device=CPU, stream=1, prov=prov))
    f.append(WaitEvent(event=after, device=CPU, prov=prov))
    f.append(SyncEvent(event=after, prov=prov))
    elsewhere = f.value(w.name("e"), OpaqueType(OpaqueKind.EVENT))
    f.append(RecordEvent(result=elsewhere, device=device, stream=w.rng.randrange(2), prov=prov))
    out.ready = True


def foreign(w: World) -> None:
    """A launch with a grid of a kernel that a plug-in knows."""
    x = w.dense()
    if x is None:
        return
    out = w.alloc(x.type)
    grid = (Int(1), Max((Int(1), random_int(w.rng, w.symbols, 1))))
    w.function.launch(FOREIGN, (x.value, out.value, w.length(x)), grid=grid)
    out.ready = True


def collective(w: World) -> None:
    """all_reduce and its wait."""
    x = w.dense()
    if x is None:
        return
    w.program.extern(_ALL_REDUCE)
    f, prov = w.function, w.function.prov
    flying = f.value(w.name("h"), x.type)
    f.append(
        CollectiveStart(
            target=_ALL_REDUCE.name,
            args=(x.value, "sum"),
            kwargs=(("group_name", "0"),),
            result=flying,
            group="0",
            prov=prov,
        )
    )
    done = f.value(w.name("y"), x.type)
    f.append(Wait(source=flying, result=done, prov=prov))
    w.hold(done)


def randomness(w: World) -> None:
    """A call that draws, with a generator where main has one."""
    x = w.pick(t for t in w.tensors if t.dense and t.mutable and t.ready)
    if x is None:
        return
    handle = w.rng.choice(w.generators) if w.generators else None
    w.call("aten::normal_", (x.value, Float(0.0)), (("std", Float(1.0)), ("generator", handle)))


_ALL_REDUCE = EXTERNS["_c10d_functional::all_reduce"]
STEPS: tuple[Step, ...] = (
    fill,
    workspace,
    convert,
    align,
    view,
    reuse,
    relu,
    add,
    scale,
    probe,
    call_relu,
    call_out,
    call_lists,
    call_topk,
    call_nonzero,
    call_reshape,
    define,
    check,
    finite,
    debug,
)
"""Steps that a CPU can run."""

CALLED_STEPS: tuple[Step, ...] = tuple(s for s in STEPS if s not in (define, debug))
"""Steps for functions that may be called more than once in an activation of another."""

ACCELERATOR_STEPS: tuple[Step, ...] = (other_device, streams, foreign, collective, randomness)
"""Steps that need devices, processes or plug-ins."""
