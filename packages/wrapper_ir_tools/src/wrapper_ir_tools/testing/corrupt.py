"""Makes single random corruptions of programs, like an edit of the text, to test verifiers."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Literal

from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int, Sym, add, as_expr, as_int, mul
from wrapper_ir.expr.rewrite import substitute
from wrapper_ir.expr.text import print_expr

_TRIES = 200


def corrupt(program: ir.Program, rng: random.Random) -> tuple[ir.Program, str]:
    """Returns `program` with one change, and its description. The result differs, but may still be valid.

    Raises ValueError if nothing can be changed (a program without ops).
    """
    for _ in range(_TRIES):
        position = rng.randrange(len(program.functions))
        function = program.functions[position]
        if not function.body:
            continue
        change = rng.choice(CORRUPTIONS)(program, function, rng)
        if change is None or change[0] == function:
            continue
        functions = (*program.functions[:position], change[0], *program.functions[position + 1 :])
        return dataclasses.replace(program, functions=functions), f"@{function.name}: {change[1]}"
    raise ValueError("found nothing to corrupt")


Made = tuple[ir.Function, str] | None


def _body(function: ir.Function, body: list[ir.Op]) -> ir.Function:
    return dataclasses.replace(function, body=tuple(body))


def _describe(op: ir.Op) -> str:
    names = ", ".join(f"%{v.name}" for v in ir.results(op))
    return f"{type(op).__name__} {names}".strip()


def _list(exprs: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(print_expr, exprs))}]"


def _drop(program: ir.Program, function: ir.Function, rng: random.Random) -> Made:
    body = list(function.body)
    i = rng.randrange(len(body))
    removed = body.pop(i)
    return _body(function, body), f"op {i} dropped ({_describe(removed)})"


def _swap(program: ir.Program, function: ir.Function, rng: random.Random) -> Made:
    body = list(function.body)
    i = rng.randrange(len(body))
    j = min(i + 1, len(body) - 1) if rng.random() < 0.5 else rng.randrange(len(body))
    body[i], body[j] = body[j], body[i]
    return _body(function, body), f"ops {i} and {j} swapped ({_describe(body[j])}, {_describe(body[i])})"


def _duplicate(program: ir.Program, function: ir.Function, rng: random.Random) -> Made:
    body = list(function.body)
    i, j = rng.randrange(len(body)), rng.randrange(len(body) + 1)
    body.insert(j, body[i])
    return _body(function, body), f"op {i} repeated at {j} ({_describe(function.body[i])})"


def _number(program: ir.Program, e: Expr, rng: random.Random) -> Expr:
    """A near number, one of another magnitude, or another symbol."""
    one = as_expr(rng.choice((-1, 1, 1, 2, 7, 64)))
    choices: list[Callable[[], Expr]] = [
        lambda: add(e, one),
        lambda: mul(e, 2),
        lambda: Int(0),
        lambda: Int(rng.choice((-1, 1, 3, 1 << 20))),
    ]
    if (value := as_int(e) or 0) > 1:
        choices.append(lambda: Int(value // 2))
    if e.free_symbols and len(program.symbols) > 1:
        choices += [lambda: _other_symbol(program, e, rng)] * 2
    return rng.choice(choices)()


def _other_symbol(program: ir.Program, e: Expr, rng: random.Random) -> Expr:
    old = rng.choice(sorted(e.free_symbols))
    new = rng.choice([s for s in program.symbols if s.name != old] or list(program.symbols))
    return substitute(e, {old: Sym(new.name, new.kind)})


def _one_of(program: ir.Program, exprs: tuple[Expr, ...], rng: random.Random) -> tuple[Expr, ...] | None:
    if not exprs:
        return None
    k = rng.randrange(len(exprs))
    return (*exprs[:k], _number(program, exprs[k], rng), *exprs[k + 1 :])


def _retype(function: ir.Function, value: ir.Value, type: ir.TensorType | ir.StorageType) -> ir.Function:
    """Changes the type of a value, at its definition and at every use."""
    new = ir.Value(value.name, type)
    return ir.map_function(function, lambda v: new if v == value else v)


def _shape(program: ir.Program, function: ir.Function, rng: random.Random) -> Made:
    defined = ir.definitions(function)
    value = rng.choice(defined) if defined else None
    if ir.is_storage(value):
        return _with_bytes(program, function, value, rng)
    return _with_dims(program, function, value, "sizes", rng) if ir.is_tensor(value) else None


def _stride(program: ir.Program, function: ir.Function, rng: random.Random) -> Made:
    values = [v for op in function.body for v in ir.results(op) if ir.is_tensor(v)]
    return _with_dims(program, function, rng.choice(values), "strides", rng) if values else None


def _storage_bytes(program: ir.Program, function: ir.Function, rng: random.Random) -> Made:
    values = [op.result for op in function.ops_of(ir.AllocStorage)]
    return _with_bytes(program, function, rng.choice(values), rng) if values else None


def _with_bytes(
    program: ir.Program, function: ir.Function, value: ir.Value[ir.StorageType], rng: random.Random
) -> Made:
    old = value.type.nbytes
    nbytes = _number(program, old, rng)
    changed = _retype(function, value, dataclasses.replace(value.type, nbytes=nbytes))
    return changed, f"bytes of %{value.name} from {print_expr(old)} to {print_expr(nbytes)}"


def _with_dims(
    program: ir.Program,
    function: ir.Function,
    value: ir.Value[ir.TensorType],
    field: Literal["sizes", "strides"],
    rng: random.Random,
) -> Made:
    old = value.type.sizes if field == "sizes" else value.type.strides
    new = _one_of(program, old, rng)
    if new is None:
        return None
    sizes, strides = (new, value.type.strides) if field == "sizes" else (value.type.sizes, new)
    changed = _retype(function, value, dataclasses.replace(value.type, sizes=sizes, strides=strides))
    return changed, f"{field} of %{value.name} from {_list(old)} to {_list(new)}"


def _replace(function: ir.Function, position: int, op: ir.Op, what: str) -> Made:
    body = list(function.body)
    body[position] = op
    return _body(function, body), f"op {position}: {what}"


def _offset(program: ir.Program, function: ir.Function, rng: random.Random) -> Made:
    views = [*function.positions_of(ir.View)]
    if not views:
        return None
    i, op = rng.choice(views)
    offset = _number(program, op.offset, rng)
    if rng.random() < 0.5:
        offset = add(op.offset, op.result.type.dtype.itemsize * rng.choice((-4, -1, 1, 4, 64)))
    changed = dataclasses.replace(op, offset=offset)
    what = f"offset of %{op.result.name} from {print_expr(op.offset)} to {print_expr(offset)}"
    return _replace(function, i, changed, what)


def _operand(program: ir.Program, function: ir.Function, rng: random.Random) -> Made:
    """Replaces one operand by another value of the function, possibly of the same type."""
    i = rng.randrange(len(function.body))
    op = function.body[i]
    inputs = ir.operands(op)
    if not inputs:
        return None
    old = rng.choice(inputs)
    others = [*ir.definitions(function), *(c.value for c in program.constants)]
    alike = [v for v in others if v.type == old.type]
    near = [v for v in others if type(v.type) is type(old.type)]
    new = rng.choice(rng.choice([g for g in (alike, near, others) if g] or [[old]]))
    changed = ir.map_values(op, lambda v: new if v == old else v)
    return _replace(function, i, changed, f"%{old.name} became %{new.name} ({_describe(op)})")


def _size(program: ir.Program, function: ir.Function, rng: random.Random) -> Made:
    """Changes a number in an op: an argument, an extent, an asserted size, a definition."""
    classes = ir.Launch | ir.AssertLayout | ir.Define | ir.CallExtern
    places = [(i, op) for i, op in enumerate(function.body) if isinstance(op, classes)]
    if not places:
        return None
    i, op = rng.choice(places)
    changed: ir.Op | None = None
    match op:
        case ir.Launch():
            extents = _one_of(program, op.extents, rng)
            changed = dataclasses.replace(op, extents=extents) if extents else None
        case ir.AssertLayout():
            sizes = _one_of(program, op.sizes[0], rng)
            changed = dataclasses.replace(op, sizes=(sizes, *op.sizes[1:])) if sizes else None
        case ir.Define():
            changed = dataclasses.replace(op, expr=add(op.expr, 1))
        case ir.CallExtern():
            numbers = [(k, a) for k, a in enumerate(op.args) if isinstance(a, Expr)]
            if numbers:
                k, arg = rng.choice(numbers)
                args = (*op.args[:k], _number(program, arg, rng), *op.args[k + 1 :])
                changed = dataclasses.replace(op, args=args)
    return None if changed is None else _replace(function, i, changed, f"a number ({_describe(op)})")


def _callee(program: ir.Program, function: ir.Function, rng: random.Random) -> Made:
    """Replaces the name of a kernel, operator, function or symbol, possibly by one that does not exist."""
    i = rng.randrange(len(function.body))
    op = function.body[i]
    kernels = [k.name for k in program.kernels] + ["no_such_kernel"]
    operators = [e.name for e in program.externs] + ["no::such_operator"]
    functions = [f.name for f in program.functions] + ["no_such_function"]
    symbols = [s.name for s in program.symbols] + ["no_such_symbol"]
    match op:
        case ir.Launch():
            changed: ir.Op = dataclasses.replace(op, kernel=rng.choice(kernels))
        case ir.CollectiveStart() if rng.random() < 0.3:
            changed = dataclasses.replace(op, group=f"{op.group}_other")
        case ir.CallExtern() | ir.CollectiveStart():
            changed = dataclasses.replace(op, target=rng.choice(operators))
        case ir.CallSubgraph():
            changed = dataclasses.replace(op, function=rng.choice(functions))
        case ir.Switch():
            changed = dataclasses.replace(op, branches=(rng.choice(functions), *op.branches[1:]))
        case ir.WhileLoop():
            changed = dataclasses.replace(op, body_fn=rng.choice(functions))
        case ir.Define():
            changed = dataclasses.replace(op, symbol=rng.choice(symbols))
        case _:
            return None
    return _replace(function, i, changed, f"another name ({_describe(op)})")


def _rename(program: ir.Program, function: ir.Function, rng: random.Random) -> Made:
    """Renames a result at its definition but not at its uses, or to an existing name."""
    places = [(i, op) for i, op in enumerate(function.body) if ir.results(op)]
    if not places:
        return None
    i, op = rng.choice(places)
    names = [v.name for o in function.body for v in ir.results(o)]
    old = rng.choice(ir.results(op))
    new = ir.Value(rng.choice([*names, f"{old.name}_other"]), old.type)
    changed = ir.map_values(op, lambda v: v, lambda v: new if v == old else v)
    return _replace(function, i, changed, f"result %{old.name} renamed to %{new.name}")


CORRUPTIONS: tuple[Callable[[ir.Program, ir.Function, random.Random], Made], ...] = (
    _drop,
    _swap,
    _duplicate,
    _shape,
    _storage_bytes,
    _stride,
    _offset,
    _operand,
    _size,
    _callee,
    _rename,
)
"""The kinds of corruption. Each returns the changed function and a description, or None if it does not apply.
"""
