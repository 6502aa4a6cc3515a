"""Steps of hostile programs: memory, views, kernels, symbols and checks.

`calls` has operators and functions.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.soundness.guarded.calls import CALLS
from tests.soundness.guarded.edges import hostile_expr
from tests.soundness.guarded.hostile import Hostile
from tests.soundness.guarded.slots import SLOTS
from wrapper_ir import ir
from wrapper_ir.builder import tensor_type
from wrapper_ir.expr import Expr, Float, Int, ge, le
from wrapper_ir.expr.arithmetic import fits_int64


def fill(h: Hostile) -> None:
    """Memory, and a kernel that writes it."""
    _launch(h, [(h.alloc(h.type()), ir.Access.WRITE)])


def compute(h: Hostile) -> None:
    """A kernel from one or two tensors into another, or into one of them."""
    source = h.tensor()
    if source is None:
        return
    second = h.tensor(source.type)
    into = h.rng.choice((h.alloc(source.type), h.tensor(source.type, ready=False) or source))
    access = h.rng.choice(
        (ir.Access.WRITE, ir.Access.READWRITE) if into.name not in h.unready else (ir.Access.WRITE,)
    )
    reads = [(source, ir.Access.READ)] + ([(second, ir.Access.READ)] if second is not None else [])
    _launch(h, [*reads, (into, access)])


def _launch(h: Hostile, used: list[tuple[ir.Value[ir.TensorType], ir.Access]]) -> None:
    pairs = h.rng.choice((0, 0, 1, 2))
    names = [f"ptr{k}" for k in range(len(used))]
    params = [
        ir.KernelParam(
            name=name,
            kind=ir.ParamKind.POINTER,
            dtype=h.rng.choice(tuple(ir.DType)) if h.bad() else value.type.dtype,
            access=access,
            may_alias=tuple(n for n in names if n != name) if pairs == 1 else (),
            may_overlap=tuple(n for n in names if n != name) if pairs == 2 else (),
            divisible=h.rng.choice((1, 1, 1, 4, 16, 64)) if h.rng.random() < 0.2 else 1,
        )
        for name, (value, access) in zip(names, used, strict=True)
    ]
    numbers: list[ir.Arg] = []
    if h.rng.random() < 0.5:
        params.append(ir.KernelParam(name="n", kind=ir.ParamKind.SCALAR, dtype=ir.DType.I64))
        n = hostile_expr(h.rng, h.symbols) if h.rng.random() < 0.3 else h.number(7)
        numbers.append(n if h.bad() or not _is_too_large(n) else Int(7))
    if h.rng.random() < 0.2:
        params.append(ir.KernelParam(name="f", kind=ir.ParamKind.SCALAR, dtype=ir.DType.F64))
        numbers.append(Float(0.5))
    kernel = ir.CppKernel(name=h.name("k"), params=tuple(params), source='extern "C" void k() {}', entry="k")
    extents = tuple(h.number(ir.extent_bytes(v.type)) for v, _ in used) if h.rng.random() < 0.4 else ()
    h.function.launch(kernel, (*(v for v, _ in used), *numbers), extents=extents)
    h.unready -= {v.name for v, access in used if access.writes}


def _is_too_large(n: Expr) -> bool:
    return isinstance(n, Int) and not fits_int64(n.value)


def touch(h: Hostile, value: ir.Value[ir.TensorType], *, reads: bool = False) -> None:
    """A kernel that writes a tensor, or reads it too."""
    _launch(h, [(value, ir.Access.READWRITE if reads else ir.Access.WRITE)])


def storage(h: Hostile) -> None:
    """A storage, and views in it that may overlap or leave it."""
    rng = h.rng
    zero = rng.choice(tuple(ir.ZeroMode))
    nbytes = h.number(rng.choice((256, 0, 8, 100)) if not h.symbols else 64 * rng.choice(h.symbols))
    made = h.function.alloc_storage(
        h.name("ws"), nbytes, purpose=rng.choice(tuple(ir.AllocPurpose)), zero=zero
    )
    h.storages.append(made)
    for k in range(rng.randrange(3)):
        type = h.type() if h.bad() else tensor_type(ir.DType.F32, (rng.choice((2, 4, 16)),))
        view = h.function.view(h.name("part"), made, type, h.number(rng.choice((0, 64 * k, 16, 4))))
        h.hold(view, ready=zero is ir.ZeroMode.CALL)
        if rng.random() < 0.7:
            _launch(h, [(view, ir.Access.WRITE)])


def view(h: Hostile) -> None:
    """Another type over the same bytes."""
    source = h.tensor(ready=False)
    if source is None:
        return
    t = source.type
    kinds = [
        t,
        tensor_type(t.dtype, t.sizes[1:], t.strides[1:]),
        tensor_type(t.dtype, (h.number(1), *t.sizes[1:]), t.strides or (1,)),
    ]
    kinds.append(tensor_type(ir.DType.U8, (h.number(ir.extent_bytes(t)),)))
    kinds.append(tensor_type(t.dtype, t.sizes[::-1], t.strides[::-1]))
    if h.symbols:
        kinds.append(tensor_type(t.dtype, (h.rng.choice(h.symbols),)))
        kinds.append(tensor_type(t.dtype, (h.number(h.rng.choice(h.symbols) - 1), 2)))
    type = h.type(t.dtype) if h.bad() else h.rng.choice(kinds)
    size = t.dtype.itemsize
    offset = h.number(h.rng.choice((0, 0, size, 4 * size, 16)))
    if h.symbols and h.rng.random() < 0.3:
        offset = size * h.number(h.rng.choice(h.symbols))
    mode = ir.ViewMode.REUSE if h.rng.random() < 0.15 else ir.ViewMode.ALIAS
    made = h.function.view(h.name("v"), source, type, offset, mode)
    if mode is ir.ViewMode.REUSE and not h.bad():
        h.tensors.remove(source)
    h.hold(made, ready=source.name not in h.unready)


def copy(h: Hostile) -> None:
    """Elements from one into another."""
    source = h.tensor()
    into = None if source is None else h.tensor(source.type, ready=False)
    if source is None:
        return
    if into is None or h.rng.random() < 0.5:
        type = tensor_type(
            h.rng.choice((ir.DType.F64, ir.DType.F32, ir.DType.BF16, ir.DType.I64)), source.type.sizes
        )
        into = h.alloc(type)
    h.function.append(ir.Copy(dst=into, src=source))
    h.unready.discard(into.name)


def change(h: Hostile) -> None:
    """resize_storage, set_storage."""
    target, source = h.tensor(), h.tensor()
    if h.rng.random() < 0.7:
        target, source = h.alloc(h.type(ir.DType.F32)), h.alloc(h.type(ir.DType.F32))
    if target is None or source is None:
        return
    if h.rng.random() < 0.6:
        h.function.append(ir.ResizeStorage(target=target, nbytes=h.number(ir.extent_bytes(target.type))))
    if h.rng.random() < 0.7:
        h.function.append(ir.SetStorage(target=target, source=source))
    if h.rng.random() < 0.5:
        _launch(h, [(target, ir.Access.WRITE)])


def align(h: Hostile) -> None:
    """ensure_aligned, to any alignment."""
    source = h.tensor()
    if source is not None:
        result = h.function.value(h.name("aligned"), h.type() if h.bad() else source.type)
        alignment = h.rng.choice((16, 64, 4096, 1)) if not h.bad() else h.rng.choice((0, -1, 3, 1 << 62))
        h.function.append(ir.EnsureAligned(source=source, result=result, alignment=alignment))
        h.hold(result)


def define(h: Hostile) -> None:
    """A symbol, from a layout, a number, an element or others, with an arbitrary range."""
    rng = h.rng
    x = h.tensor(ready=False)
    symbol = h.symbol(backed=rng.random() < 0.3)
    if x is not None and x.type.sizes and rng.random() < 0.6:
        dim = rng.randrange(len(x.type.sizes)) if not h.bad() else rng.choice((-1, 7))
        h.function.define(
            symbol.name, rng.choice((ir.SizeOf(x, dim), ir.StrideOf(x, dim), ir.OffsetOf(x))) + h.number(0)
        )
    elif h.scalars and rng.random() < 0.6:
        h.function.define(symbol.name, ir.Item(rng.choice(h.scalars)))
    else:
        h.function.define(symbol.name, hostile_expr(rng, h.symbols))
    h.symbols.append(symbol)


def check(h: Hostile) -> None:
    """Assertions that may fail, of anything."""
    x = h.tensor()
    if h.symbols:
        s = h.rng.choice(h.symbols)
        h.function.append(
            ir.AssertExpr(
                condition=h.rng.choice((ge, le))(s, h.number(h.rng.choice((0, 4, 64)))), message="m"
            )
        )
    if x is not None and h.rng.random() < 0.5:
        sizes = tuple(h.number(s) for s in x.type.sizes)
        h.function.append(
            ir.AssertLayout(
                tensors=(x,),
                sizes=(sizes,),
                strides=(x.type.strides,),
                alignment=h.rng.choice((0, 4, 16)),
                message="m",
            )
        )
    if x is not None and x.type.dtype is ir.DType.F32 and h.rng.random() < 0.3:
        h.function.append(ir.AssertFinite(tensor=x, message="m"))


def end(h: Hostile) -> None:
    """A free or a drop at an arbitrary place."""
    if h.bad() and h.rng.random() < 0.3:
        x = h.tensor()
        if x is not None:
            h.function.append(h.rng.choice((ir.Free(storage=x), ir.Drop(value=x))))


STEPS: tuple[Callable[[Hostile], None], ...] = (
    fill, fill, compute, compute, storage, view, view, view, copy, change, align, define, define, check, end, *CALLS, *SLOTS,
)  # fmt: skip
