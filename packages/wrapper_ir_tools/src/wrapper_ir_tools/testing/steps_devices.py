"""Steps that need devices, processes or plug-ins."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.builder import tensor_type
from wrapper_ir.expr import Float, Int
from wrapper_ir.expr.operators import MAX
from wrapper_ir_tools.testing.catalogue import EXTERNS, FOREIGN, RELU, TRITON
from wrapper_ir_tools.testing.numbers import random_int
from wrapper_ir_tools.testing.world import Held, Step, World, on_dense

_ALL_REDUCE = EXTERNS["_c10d_functional::all_reduce"]
_ALL_REDUCE_ = EXTERNS["_c10d_functional::all_reduce_"]
_ALL_GATHER = EXTERNS["_c10d_functional::all_gather_into_tensor_coalesced"]


@on_dense
def other_device(w: World, source: Held) -> None:
    """Appends a copy to another device, and back."""
    device = w.device()
    there = w.function.alloc(w.name("there"), tensor_type(ir.DType.F32, source.type.sizes, None, device))
    w.append(ir.Copy(dst=there, src=source.value, non_blocking=w.rng.random() < 0.3))
    back = w.alloc(source.type)
    w.append(ir.Copy(dst=back.value, src=there))
    back.ready = True


@on_dense
def streams(w: World, x: Held) -> None:
    """Appends a launch on another stream between events."""
    f = w.function
    device = w.rng.choice((ir.CPU, w.program.target.device, ir.Device("cuda", 1)))
    out = w.alloc(x.type)
    before = f.value(w.name("e"), ir.OpaqueType(ir.OpaqueKind.EVENT))
    w.append(ir.RecordEvent(result=before, device=ir.CPU))
    w.append(ir.WaitEvent(event=before, device=ir.CPU, stream=1))
    f.launch(RELU, (x.value, out.value, w.length(x)), stream=1)
    after = f.value(w.name("e"), ir.OpaqueType(ir.OpaqueKind.EVENT))
    w.append(ir.RecordEvent(result=after, device=ir.CPU, stream=1))
    w.append(ir.WaitEvent(event=after, device=ir.CPU))
    w.append(ir.SyncEvent(event=after))
    w.append(ir.Barrier())
    elsewhere = f.value(w.name("e"), ir.OpaqueType(ir.OpaqueKind.EVENT))
    w.append(ir.RecordEvent(result=elsewhere, device=device, stream=w.rng.randrange(2)))
    out.ready = True


def memory_pool(w: World) -> None:
    """Appends an allocation from a memory pool, on a device or on the program's target."""
    device = ir.Device("cuda", w.rng.randrange(2))
    w.append(ir.EnterMemoryPool(name=w.rng.choice(("activations", "weights")), device=device))
    w.function.alloc(
        w.name("pooled"),
        tensor_type(ir.DType.F32, (4,), None, w.rng.choice((device, w.program.target.device))),
    )
    w.append(ir.ExitScope())


def replayable(w: World) -> None:
    """Appends a call of a replayable function with work on two streams."""
    device = ir.Device("cuda", 0)
    type = tensor_type(ir.DType.F32, (4,), None, device)
    step = w.program.function(f"step{next(w.fresh)}")
    step.replayable = True
    source, target = step.param("given", type), step.alloc("left", type)
    before, after = (step.value(name, ir.OpaqueType(ir.OpaqueKind.EVENT)) for name in ("before", "after"))
    step.append(ir.RecordEvent(result=before, device=device))
    step.append(ir.WaitEvent(event=before, device=device, stream=1))
    step.append(ir.Copy(dst=target, src=source, stream=1))
    step.append(ir.RecordEvent(result=after, device=device, stream=1))
    step.append(ir.WaitEvent(event=after, device=device))
    step.ret((target,))
    room = w.function.alloc_storage(w.name("room"), 16, device=device, zero=ir.ZeroMode.CALL)
    there = w.function.view(w.name("there"), room, type)
    result = w.function.value(w.name("replayed"), type)
    w.append(ir.CallSubgraph(function=step.name, args=(there,), results=(result,)))


@on_dense
def foreign(w: World, x: Held) -> None:
    """Appends a launch, with a grid, of a plug-in's kernel."""
    out = w.alloc(x.type)
    grid = (Int(1), MAX(Int(1), random_int(w.rng, w.symbols, 1)))
    w.function.launch(FOREIGN, (x.value, out.value, w.length(x)), grid=grid)
    out.ready = True


@on_dense
def triton(w: World, x: Held) -> None:
    """Appends a launch of a Triton kernel with a number that only its grid uses."""
    out = w.alloc(x.type)
    w.function.launch(TRITON, (x.value, out.value, w.length(x)), grid=(random_int(w.rng, w.symbols, 1),))
    out.ready = True


def collective(w: World) -> None:
    """Appends a collective and its waits: out of place, in place, or over several tensors."""
    w.rng.choice((_all_reduce, _all_reduce_in_place, _all_gather))(w)


@on_dense
def _all_reduce(w: World, x: Held) -> None:
    f = w.function
    results = ((w.name("h"), x.type),)
    (flying,) = f.collective(
        _ALL_REDUCE, (x.value, "sum"), (("group_name", "0"),), group="0", results=results
    )
    w.hold(f.wait(w.name("y"), flying))


def _all_reduce_in_place(w: World) -> None:
    x = w.pick(t for t in w.tensors if t.dense and t.mutable and t.ready)
    if x is None:
        return
    f = w.function
    results = ((w.name("h"), x.type),)
    (flying,) = f.collective(_ALL_REDUCE_, (x.value, "sum", "0"), group="0", results=results)
    w.hold(f.wait(w.name("y"), flying), root=x.root, own=x.own)


def _all_gather(w: World) -> None:
    """Appends waits in random order; an argument may be written again after its own wait."""
    inputs = [x for x in (w.dense(), w.dense()) if x is not None]
    f = w.function
    results = [(w.name("h"), x.type) for x in inputs]
    if not inputs:
        return
    flying = f.collective(
        _ALL_GATHER, (tuple(x.value for x in inputs), Int(1), "0"), group="0", results=results
    )
    for handle in w.rng.sample(flying, len(flying)):
        w.hold(f.wait(w.name("y"), handle))


def randomness(w: World) -> None:
    """Appends a call that draws random numbers, with a generator if main has one."""
    x = w.pick(t for t in w.tensors if t.dense and t.mutable and t.ready)
    if x is None:
        return
    handle = w.rng.choice(w.generators) if w.generators else None
    w.call("aten::normal_", (x.value, Float(0.0)), (("std", Float(1.0)), ("generator", handle)))


ACCELERATOR_STEPS: tuple[Step, ...] = (
    other_device,
    streams,
    memory_pool,
    replayable,
    foreign,
    triton,
    collective,
    randomness,
)
