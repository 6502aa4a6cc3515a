"""Steps that call functions of the program: subgraphs, conditionals, loops."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.builder import tensor_type
from wrapper_ir.expr import Expr, Int, Sym, SymKind
from wrapper_ir.expr.operators import LT
from wrapper_ir_tools.testing.catalogue import RELU
from wrapper_ir_tools.testing.numbers import random_bool, random_int
from wrapper_ir_tools.testing.steps import CALLED_STEPS
from wrapper_ir_tools.testing.world import Held, World, on_dense

_INT = ir.ScalarType(SymKind.INT)
_MAX_DEPTH = 2
_TRIPS = 3


def _begin(
    w: World, wish: str, type: ir.TensorType, ownership: ir.Ownership
) -> tuple[World, ir.Value[ir.TensorType], Sym]:
    """Begins a function `(k: int, x: type)`; returns its world, x, and a symbol for k.

    It captures the symbols that the type mentions.
    """
    part = w.child(wish)
    part.step()
    for name in sorted(ir.type_symbols(type)):
        part.function.capture(name)
        part.symbols.append(Sym(name))
    scalar = part.function.param(part.name("k"), _INT)
    x = part.function.param(part.name("x"), type, ownership)
    number = part.symbol(backed=False, lower=None)
    part.function.define(number.name, ir.Item(scalar))
    return part, x, number


def _transform(w: World, wish: str, type: ir.TensorType, *, own: bool = False, count: bool = False) -> str:
    """Builds a function `(k, x)` that returns a new tensor of x's type, or `(k + 1, tensor)`; returns its
    name.
    """
    part, x, number = _begin(w, wish, type, ir.Ownership.OWNED if own else ir.Ownership.BORROWED)
    entry = part.hold(x, own=own, mutable=own)
    out = part.alloc(type)
    part.function.launch(RELU, (x, out.value, part.length(entry)))
    # the steps must not use the result
    part.tensors.remove(out)
    for _ in range(w.rng.randrange(3)):
        part.step()
        steps = (*CALLED_STEPS, *CALL_STEPS) if part.depth < _MAX_DEPTH else CALLED_STEPS
        w.rng.choice(steps)(part)
    part.function.ret((number + 1, out.value) if count else (out.value,))
    return part.function.name


def call_subgraph(w: World) -> None:
    """Appends a call that borrows or takes its tensor."""
    own = w.rng.random() < 0.5
    x = w.pick(t for t in w.tensors if t.ready and t.dense and (t.own or not own))
    if x is None:
        return
    name = _transform(w, "sub", x.type, own=own)
    result = w.function.value(w.name("r"), x.type)
    w.append(ir.CallSubgraph(function=name, args=(_number(w), x.value), results=(result,)))
    if own:
        w.forget(x.root)
    # only the callee knows the aliases of the result, so it is never written or moved
    w.hold(result, own=False, mutable=False)


@on_dense
def cond(w: World, x: Held) -> None:
    """Appends a conditional on an expression or on a tensor."""
    predicates: list[ir.Arg] = [random_bool(w.rng, w.symbols), *w.predicates]
    result = w.function.value(w.name("r"), x.type)
    w.append(
        ir.Switch(
            index=w.rng.choice(predicates),
            branches=(_transform(w, "then", x.type), _transform(w, "else", x.type)),
            args=(_number(w), x.value),
            results=(result,),
        )
    )
    w.hold(result, own=False, mutable=False)


@on_dense
def switch(w: World, x: Held) -> None:
    """Appends a switch over an int that selects one of up to four branches."""
    branches = tuple(_transform(w, "branch", x.type) for _ in range(w.rng.randrange(1, 5)))
    result = w.function.value(w.name("r"), x.type)
    w.append(
        ir.Switch(
            index=_number(w) % len(branches), branches=branches, args=(_number(w), x.value), results=(result,)
        )
    )
    w.hold(result, own=False, mutable=False)


@on_dense
def loop(w: World, x: Held) -> None:
    """Appends a loop of three trips over a counter and a tensor."""
    test, _, number = _begin(w, "cond", x.type, ir.Ownership.BORROWED)
    test.function.ret((LT(number, Int(_TRIPS)),))
    body = _transform(w, "body", x.type, count=True)
    stacked = w.rng.random() < 0.3
    type_ = tensor_type(ir.DType.F32, (_TRIPS, *x.type.sizes)) if stacked else x.type
    count, result = w.function.value(w.name("n"), _INT), w.function.value(w.name("r"), type_)
    w.append(
        ir.WhileLoop(
            cond_fn=test.function.name,
            body_fn=body,
            carried=(Int(0), x.value),
            captured=(),
            stacked=stacked,
            results=(count, result),
        )
    )
    w.scalars.append(count)
    w.hold(result, own=False, mutable=False)


def _number(w: World) -> Expr:
    return random_int(w.rng, w.symbols, 1)


CALL_STEPS = (call_subgraph, cond, switch, loop)
