"""Steps that launch kernels and call operators."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.builder import tensor_type
from wrapper_ir.expr import Bool, Float, Int
from wrapper_ir_tools.testing.catalogue import ADD, PROBE, RELU, SCALE
from wrapper_ir_tools.testing.numbers import random_float, random_int
from wrapper_ir_tools.testing.world import Held, Step, World, on_dense


@on_dense
def relu(w: World, source: Held) -> None:
    """Appends a launch into a new tensor."""
    out = w.alloc(source.type)
    w.function.launch(RELU, (source.value, out.value, w.length(source)))
    out.ready = True


def add(w: World) -> None:
    """Appends a launch of a kernel whose output may be one of its inputs."""
    a = w.dense()
    b = None if a is None else w.like(a)
    if a is None or b is None:
        return
    out = a if a.mutable and w.rng.random() < 0.4 and a.root != b.root else w.alloc(a.type)
    w.function.launch(ADD, (a.value, b.value, out.value, w.length(a)))
    out.ready = True


def scale(w: World) -> None:
    """Appends an in-place launch."""
    x = w.pick(t for t in w.tensors if t.dense and t.ready and t.mutable)
    if x is not None:
        w.function.launch(SCALE, (x.value, Float(w.rng.choice((0.5, -1.0, 2.0))), w.length(x)))


def probe(w: World) -> None:
    """Appends a launch with expressions of all kinds."""
    x = w.dense()
    if x is not None:
        w.function.launch(PROBE, (x.value, random_int(w.rng, w.symbols), random_float(w.rng, w.symbols)))


@on_dense
def call_relu(w: World, x: Held) -> None:
    """Appends a call with a new result, sometimes unpacked from a nested result."""
    name, kwargs = w.rng.choice(
        (
            ("aten::relu", ()),
            ("aten::gelu", (("approximate", "tanh"),)),
            ("aten::clone", (("memory_format", ir.MemoryFormat.CONTIGUOUS),)),
        )
    )
    if w.rng.random() < 0.2:
        nested = w.call(name, (x.value,), kwargs, ir.TupleType(), "nested")
        assert nested is not None
        w.hold(w.function.unpack(w.name("whole"), nested, (), x.type))
        return
    result = w.call(name, (x.value,), kwargs, x.type, "called")
    assert result is not None
    w.hold(result)


def call_out(w: World) -> None:
    """Appends a call of an out variant, and of a mutating operator."""
    a = w.dense()
    b = None if a is None else w.like(a)
    if a is None or b is None:
        return
    out = w.alloc(a.type)
    alpha: ir.Arg = w.rng.choice((Int(2), Float(0.5)))
    w.call("aten::add.out", (a.value, b.value), (("alpha", alpha), ("out", out.value)))
    out.ready = True
    w.call("aten::sigmoid_", (out.value,))


def call_lists(w: World) -> None:
    """Appends calls with lists of tensors and sizes, and with dtypes, devices and layouts."""
    x = w.pick(t for t in w.tensors if t.dense and t.ready and t.static and len(t.static) == 1)
    if x is not None and x.static is not None:
        joined = w.call(
            "aten::cat", ((x.value, x.value), Int(0)), (), tensor_type(ir.DType.F32, (2 * x.static[0],))
        )
        assert joined is not None
        w.hold(joined)
    dims = w.dims()
    type_ = tensor_type(ir.DType.F32, dims)
    options: list[tuple[str, ir.Arg]] = [
        ("dtype", ir.DType.F32),
        ("layout", ir.Layout.STRIDED),
        ("device", ir.CPU),
    ]
    sizes = tuple(Int(d) if isinstance(d, int) else d for d in dims)
    zeros = w.call(
        "aten::zeros", (sizes,), (*options, ("pin_memory", w.rng.choice((None, Bool(False))))), type_
    )
    assert zeros is not None
    w.hold(zeros)


def call_topk(w: World) -> None:
    """Appends a call with two results."""
    x = w.pick(t for t in w.tensors if t.dense and t.ready and t.static == (16,))
    if x is None:
        return
    nested = w.call("aten::topk", (x.value, Int(2)), (("largest", Bool(True)),), ir.TupleType(), "top")
    assert nested is not None
    w.hold(w.function.unpack(w.name("values"), nested, (0,), tensor_type(ir.DType.F32, (2,))))
    if w.rng.random() < 0.7:
        w.hold(w.function.unpack(w.name("indices"), nested, (1,), tensor_type(ir.DType.I64, (2,))))


@on_dense
def call_nonzero(w: World, x: Held) -> None:
    """Appends a call with an unbacked size, which is defined from the result."""
    size = w.symbol(backed=False)
    rank = len(x.type.sizes)
    indices = w.call("aten::nonzero", (x.value,), (), tensor_type(ir.DType.I64, (size, rank)), "found")
    assert indices is not None
    w.function.define(size.name, ir.SizeOf(indices, 0))
    w.symbols.append(size)
    w.hold(indices)


def call_reshape(w: World) -> None:
    """Appends a call whose result may alias its argument."""
    x = w.pick(t for t in w.tensors if t.ready and t.dense and t.static == (4, 4))
    if x is None:
        return
    reshaped = w.call(
        "aten::reshape", (x.value, (Int(2), Int(-1))), (), tensor_type(ir.DType.F32, (2, 8)), "shaped"
    )
    assert reshaped is not None
    w.function.launch(PROBE, (reshaped, random_int(w.rng, w.symbols), Float(0.5)))


KERNEL_STEPS: tuple[Step, ...] = (
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
)
