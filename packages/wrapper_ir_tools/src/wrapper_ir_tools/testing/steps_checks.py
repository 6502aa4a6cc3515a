"""Steps that define symbols, check and print."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int
from wrapper_ir.expr.operators import LE, OR
from wrapper_ir_tools.testing.numbers import random_bool, random_int
from wrapper_ir_tools.testing.steps_memory import fill
from wrapper_ir_tools.testing.world import Step, World


def define(w: World) -> None:
    """Appends a define from sizes, parameters and other symbols."""
    x = w.pick(t for t in w.tensors if t.type.sizes)
    backed = w.rng.random() < 0.5
    if w.scalars and w.rng.random() < 0.4:
        symbol = w.symbol(backed=False, lower=None)
        w.function.define(symbol.name, ir.Item(w.rng.choice(w.scalars)))
        return
    if x is not None and w.rng.random() < 0.5:
        dim = w.rng.randrange(len(x.type.sizes))
        atom = w.rng.choice((ir.SizeOf(x.value, dim), ir.StrideOf(x.value, dim)))
        w.function.define(w.symbol(backed=backed).name, atom + random_int(w.rng, w.symbols, 1))
        return
    w.function.define(w.symbol(backed=backed, lower=None).name, random_int(w.rng, w.symbols))


def check(w: World) -> None:
    """Appends assertions that hold."""
    operands = [x for x in (w.dense(), w.dense()) if x is not None][w.rng.randrange(2) :]
    if operands:
        w.append(
            ir.AssertLayout(
                tensors=tuple(x.value for x in operands),
                sizes=tuple(x.type.sizes for x in operands),
                strides=tuple(x.type.strides for x in operands),
                alignment=w.rng.choice((0, 4)),
                message=w.string(),
            )
        )
    condition: Expr = OR(random_bool(w.rng, w.symbols), LE(Int(0), Int(1)))
    w.append(ir.AssertExpr(condition=condition, message=w.string()))


def finite(w: World) -> None:
    """Appends assert_finite of a new fill, which is finite."""
    fill(w)
    w.append(ir.AssertFinite(tensor=w.tensors[-1].value, message=w.string()))


def profile(w: World) -> None:
    """Appends profile scopes, sometimes nested, around a fill."""
    depth = w.rng.randrange(1, 3)
    for _ in range(depth):
        w.append(ir.EnterProfile(name=w.string(), details=w.string()))
    fill(w)
    w.append(ir.ExitScope())
    if depth > 1:
        finite(w)
        w.append(ir.ExitScope())


def debug(w: World) -> None:
    """Appends comments and debug values."""
    w.append(ir.Comment(text=w.string()))
    ready = [t.value for t in w.tensors if t.ready]
    values = tuple(w.rng.sample(ready, min(len(ready), w.rng.randrange(1, 3))))
    mode = w.rng.choice(
        (ir.DebugMode.NAMES, ir.DebugMode.PRINT) if w.options.executable else tuple(ir.DebugMode)
    )
    w.append(ir.DebugValue(values=values, mode=mode, label=w.string()))


CHECK_STEPS: tuple[Step, ...] = (define, check, finite, profile, debug)
ONCE_STEPS: tuple[Step, ...] = (define, debug)
"""Steps for functions that are called once."""
