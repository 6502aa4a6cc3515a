"""Steps of hostile programs that call operators and functions."""

from __future__ import annotations

from collections.abc import Callable

from tests.soundness.guarded.edges import hostile_expr
from tests.soundness.guarded.hostile import Hostile
from wrapper_ir import ir
from wrapper_ir.builder import tensor_type
from wrapper_ir.expr import Int, SymKind, add, ge, lt


def unary(h: Hostile) -> None:
    """A fresh result, whose type may be another."""
    x = h.tensor()
    if x is None:
        return
    schema = h.rng.choice(
        (
            "aten::relu(Tensor self) -> Tensor",
            "aten::neg(Tensor self) -> Tensor",
            "aten::abs(Tensor self) -> Tensor",
        )
    )
    dense = tensor_type(x.type.dtype, x.type.sizes)
    type = h.type() if h.bad() else dense
    made = h.function.call(ir.ExternDef(schema=schema), (x,), name=h.name("t"), type=type)
    assert made is not None
    h.hold(made)


def lies(h: Hostile) -> None:
    """A schema that hides the operator's effects."""
    x = h.tensor()
    if x is None or not h.bad():
        return
    schema = h.rng.choice(
        (
            "aten::relu_(Tensor self) -> Tensor",
            "aten::t(Tensor self) -> Tensor",
            "aten::fill_.Scalar(Tensor self, Scalar value) -> Tensor",
            "aten::view(Tensor self, SymInt[] size) -> Tensor",
            "aten::resize_(Tensor self, SymInt[] size) -> Tensor",
        )
    )
    args: list[ir.Arg] = [x]
    if "value" in schema:
        args.append(Int(1))
    if "size" in schema:
        args.append((h.number(16),))
    made = h.function.call(ir.ExternDef(schema=schema), args, name=h.name("t"), type=x.type)
    assert made is not None
    h.hold(made)


def out(h: Hostile) -> None:
    """An out variant into a tensor of the right shape, or of another."""
    x = h.tensor()
    y = None if x is None else h.tensor(x.type)
    if x is None or y is None:
        return
    into = h.alloc(h.type() if h.bad() else x.type) if h.rng.random() < 0.7 else h.tensor(x.type, ready=False)
    if into is None:
        return
    schema = "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
    h.function.call(ir.ExternDef(schema=schema), (x, y), (("alpha", h.number(1)), ("out", into)))
    h.unready.discard(into.name)


def mutate(h: Hostile) -> None:
    """In place, a resize among them."""
    x = h.tensor()
    if x is None:
        return
    if h.bad():
        schema = (
            "aten::resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)"
        )
        h.function.call(ir.ExternDef(schema=schema), (x, (h.number(16),)))
        return
    schema = h.rng.choice(
        ("aten::neg_(Tensor(a!) self) -> Tensor(a!)", "aten::zero_(Tensor(a!) self) -> Tensor(a!)")
    )
    h.function.call(ir.ExternDef(schema=schema), (x,))


def found(h: Hostile) -> None:
    """A size that the data decides, declared with a range, in a type that may not be the result's."""
    x = h.tensor()
    if x is None:
        return
    size = h.symbol()
    rank = len(x.type.sizes)
    type = tensor_type(
        ir.DType.I64, (h.number(size), h.number(rank)), (1, size) if h.rng.random() < 0.8 else None
    )
    schema = "aten::nonzero(Tensor self) -> Tensor"
    made = h.function.call(ir.ExternDef(schema=schema), (x,), name=h.name("found"), type=type)
    assert made is not None
    h.function.define(size.name, ir.SizeOf(made, 0))
    h.symbols.append(size)
    h.hold(made)


def element(h: Hostile) -> None:
    """A symbol read out of a tensor."""
    index = h.tensor(tensor_type(ir.DType.I64, (4,)))
    if index is None:
        return
    one = h.function.view(
        h.name("one"), index, tensor_type(ir.DType.I64, ()), h.number(h.rng.choice((0, 8, 24)))
    )
    symbol = h.symbol()
    h.function.define(symbol.name, ir.Item(one))
    h.symbols.append(symbol)


def sized(h: Hostile) -> None:
    """Sizes as arguments."""
    type = h.type(ir.DType.F32)
    zeros = ir.ExternDef(
        schema="aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
    )
    made = h.function.call(zeros, (type.sizes,), (("dtype", ir.DType.F32),), name=h.name("zeros"), type=type)
    assert made is not None
    h.hold(made)
    x = h.tensor()
    if x is not None and x.type.sizes and h.rng.random() < 0.5:
        schema = "aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)"
        start = h.rng.choice((Int(0), Int(1), hostile_expr(h.rng, h.symbols)))
        part = tensor_type(
            x.type.dtype, (h.number(x.type.sizes[0] - start), *x.type.sizes[1:]), x.type.strides
        )
        cut = h.function.call(ir.ExternDef(schema=schema), (x, Int(0), start), name=h.name("cut"), type=part)
        assert cut is not None
        h.hold(cut)


def lists(h: Hostile) -> None:
    """Several in, several out."""
    x = h.tensor()
    if x is None or not x.type.sizes:
        return
    schema = "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"
    type = tensor_type(x.type.dtype, (h.number(2 * x.type.sizes[0]), *x.type.sizes[1:]))
    made = h.function.call(ir.ExternDef(schema=schema), ((x, x), Int(0)), name=h.name("cat"), type=type)
    assert made is not None
    h.hold(made)
    schema = "aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)"
    nested = h.function.call(
        ir.ExternDef(schema=schema), (made, h.number(1)), name=h.name("top"), type=ir.TupleType()
    )
    assert nested is not None
    top = tensor_type(x.type.dtype, (*type.sizes[:-1], h.number(1)))
    h.hold(
        h.function.unpack(h.name("values"), nested, (0 if not h.bad() else h.rng.choice((-1, 2, 7)),), top)
    )


def shaped(h: Hostile) -> None:
    """A result that may alias."""
    x = h.tensor()
    if x is None:
        return
    reshape = ir.ExternDef(
        schema="aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", tags=(ir.ExternTag.MAY_ALIAS,)
    )
    count = Int(1)
    for size in x.type.sizes:
        count = count * size  # type: ignore[assignment]  # an expression
    made = h.function.call(
        reshape, (x, (h.number(-1),)), name=h.name("flat"), type=tensor_type(x.type.dtype, (h.number(count),))
    )
    assert made is not None
    h.hold(made)


_INT = ir.ScalarType(SymKind.INT)


def _callee(h: Hostile, type: ir.TensorType, owner: ir.Ownership, *, counts: bool = False) -> str:
    """A function `(k: int, a: type, b: type)` that returns a tensor of that type (`counts`: and k + 1)."""
    from tests.soundness.guarded.steps import STEPS

    c = h.child("fn")
    for name in sorted({s for e in (*type.sizes, *type.strides) for s in e.free_symbols}):
        if not h.bad():
            c.function.capture(name)
    c.symbols += [s for s in h.symbols if s.free_symbols <= {n for e in type.sizes for n in e.free_symbols}]
    k = c.function.param(c.name("k"), _INT)
    a = c.function.param(c.name("a"), h.type() if h.bad() else type, owner)
    b = c.function.param(c.name("b"), type)
    number = c.symbol()
    c.function.define(number.name, ir.Item(k))
    c.hold(a)
    c.hold(b)
    for _ in range(h.rng.randrange(3)):
        step = h.rng.choice(STEPS)
        if c.depth < 2 or step not in CALLS:
            step(c)
    result = c.function.call(
        ir.ExternDef(schema="aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"),
        (c.rng.choice((a, b)),), name=c.name("r"), type=type,
    )  # fmt: skip
    assert result is not None
    chosen = h.rng.choice((a, b)) if h.bad() else result
    c.function.ret((add(number, 1), chosen) if counts else (chosen,))
    return c.function.name


def calls(h: Hostile) -> None:
    """A call, a branch or a loop, whose arguments may share their memory."""
    x = h.tensor()
    if x is None or h.depth >= 2:
        return
    second = x if h.bad() else h.tensor(x.type) or x
    owner = ir.Ownership.OWNED if h.rng.random() < 0.3 else ir.Ownership.BORROWED
    result = h.function.value(h.name("r"), h.type() if h.bad() else x.type)
    args: tuple[ir.Arg, ...] = (h.number(1), x, second)
    match h.rng.randrange(3):
        case 0:
            h.function.append(
                ir.CallSubgraph(function=_callee(h, x.type, owner), args=args, results=(result,))
            )
        case 1:
            choices: list[ir.Arg] = [*h.predicates, *(ge(s, 2) for s in h.symbols[:1])]
            index = h.rng.choice(choices or [None])
            ways = 2
            if h.symbols and h.rng.random() < 0.4:  # an int that may be any
                index, ways = h.number(h.rng.choice(h.symbols)), h.rng.randrange(1, 4)
            branches = tuple(_callee(h, x.type, owner) for _ in range(ways))
            h.function.append(ir.Switch(index=index, branches=branches, args=args, results=(result,)))
        case _:
            _loop(h, x.type, args)
            return
    if owner is ir.Ownership.OWNED and not h.bad():
        h.tensors = [t for t in h.tensors if t is not x]
    h.hold(result)


def _loop(h: Hostile, type: ir.TensorType, args: tuple[ir.Arg, ...]) -> None:
    test = h.child("test")
    for name in sorted({s for e in (*type.sizes, *type.strides) for s in e.free_symbols}):
        test.function.capture(name)
    k = test.function.param(test.name("k"), _INT)
    test.function.param(test.name("a"), type)
    test.function.param(test.name("b"), type)
    number = test.symbol()
    test.function.define(number.name, ir.Item(k))
    test.function.ret((lt(number, h.number(h.rng.choice((0, 2, 4)))),))
    body = _callee(h, type, ir.Ownership.OWNED if h.bad() else ir.Ownership.BORROWED, counts=True)
    stacked = h.rng.random() < 0.3
    made = tensor_type(type.dtype, (h.number(3), *type.sizes)) if stacked else type
    results = (h.function.value(h.name("n"), _INT), h.function.value(h.name("r"), made))
    h.function.append(
        ir.WhileLoop(
            cond_fn=test.function.name,
            body_fn=body,
            carried=args[:2],
            captured=args[2:],
            stacked=stacked,
            results=results,
        )
    )
    h.scalars.append(results[0])
    h.hold(results[1])


CALLS: tuple[Callable[[Hostile], None], ...] = (
    unary, unary, lies, out, out, mutate, found, element, sized, lists, shaped, calls, calls,
)  # fmt: skip
