"""Derives the input checks of a call, and the program's own checks that they make redundant."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wrapper_ir import ir
from wrapper_ir.analysis.input_facts import Input, NumberInput, StorageInput, TensorInput, extent
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr

_PROLOGUE = (ir.Define, ir.AssertExpr, ir.AssertLayout, ir.Comment, ir.Drop)
"""Ops that cannot change an input, so that a check after them still sees the caller's argument."""
_Layout = tuple[ir.Value, tuple[Expr, ...], tuple[Expr, ...]]
"""A value with sizes and strides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChecks:
    """The checks of a call's arguments.

    `entry` are the arguments to check before the first op, each with its parameter. `layouts` maps positions
    in `main` to the parameters whose whole layout is checked after that op, which defines the last symbol of
    the layout. `covered` are positions of `AssertLayout` ops, each with a parameter whose sizes and strides
    are already checked or guarded; only its alignment remains to be checked. `storages` are the arguments
    whose elements the program accesses before it resizes their storage. They include guarded arguments,
    because guards do not check storages.
    """

    entry: tuple[tuple[ir.Value, Input], ...] = ()
    layouts: Mapping[int, tuple[ir.Value, ...]] = field(default_factory=dict)
    covered: frozenset[tuple[int, ir.Value]] = frozenset()
    storages: tuple[tuple[ir.Value[ir.TensorType], StorageInput], ...] = ()


def input_checks(
    program: ir.Program,
    signature: ir.Signature | None = None,
    guarded: ir.Guarded = ir.NOT_GUARDED,
    analyses: Analyses | None = None,
) -> InputChecks:
    """The checks of `main`'s parameters, except `guarded` ones.

    Messages name arguments as the signature does, or else by their parameters. `analyses` is the program's
    memo, if the caller has one.
    """
    body = program.main.body
    defined = {op.symbol: position for position, op in program.main.positions_of(ir.Define)}
    entry: list[tuple[ir.Value, Input]] = []
    layouts: dict[int, list[ir.Value]] = {}
    covered: set[tuple[int, ir.Value]] = set()
    checks = _own_checks(body)
    for number, param in enumerate(program.main.params):
        value = param.value
        own = checks.get((value, value.type.sizes, value.type.strides), []) if ir.is_tensor(value) else []
        if value.name in guarded.params:
            covered.update((position, value) for position in own)
            continue
        argument = _input(value, _name(number, value, signature), program)
        if argument is not None:
            entry.append((value, argument))
        if not ir.is_tensor(value):
            continue
        open_symbols = _open_symbols(value, value.type, body, defined)
        if not open_symbols:
            covered.update((position, value) for position in own)
        elif not own and open_symbols <= defined.keys():
            exprs = (*value.type.sizes, *value.type.strides)
            last = max(defined[s] for expr in exprs for s in expr.free_symbols)
            if ir.is_used(value, body[last + 1 :]):  # otherwise it may have been freed
                layouts.setdefault(last, []).append(value)
    analyses = Analyses.of(program, analyses)
    return InputChecks(
        entry=_apart(entry, program, analyses),
        storages=tuple(_storages(program, signature, analyses)),
        layouts={p: tuple(v) for p, v in layouts.items()},
        covered=frozenset(covered),
    )


def _storages(
    program: ir.Program, signature: ir.Signature | None, analyses: Analyses
) -> Iterator[tuple[ir.Value[ir.TensorType], StorageInput]]:
    """Omits arguments that are not accessed, and those whose empty storage the program resizes before the
    first access."""
    main, aliasing = program.main, analyses.aliasing(program.main)
    pending: set[ir.Value] = {param.value for param in main.params if ir.is_tensor(param.value)}
    accessed: set[ir.Value] = set()
    for position, op in enumerate(main.body):
        if not pending:
            break
        uses: tuple[ir.Value, ...]
        match op:
            case ir.ResizeStorage():
                pending.difference_update(aliasing.roots_at(op.target, position))
                uses = ()
            case ir.SetStorage():
                pending.difference_update(aliasing.roots_at(op.target, position))
                uses = (op.source,)
            case _:
                effects = aliasing.effects[position]
                uses = (*effects.reads, *effects.writes)
        for value in uses:
            for root in aliasing.roots_at(value, position):
                if root in pending:
                    pending.remove(root)
                    accessed.add(root)
    for number, param in enumerate(main.params):
        value = param.value
        if value in accessed and ir.is_tensor(value):
            yield (
                value,
                StorageInput(
                    name=_name(number, value, signature),
                    nbytes=_static_bytes(value.type),
                    itemsize=value.type.dtype.itemsize,
                ),
            )


def written_params(program: ir.Program, analyses: Analyses | None = None) -> frozenset[ir.Value]:
    """The parameters of `main` whose elements the program writes."""
    analyses = Analyses.of(program, analyses)
    main, aliasing = program.main, analyses.aliasing(program.main)
    params = {param.value for param in main.params}
    writes: set[ir.Value] = set()
    for position, effects in enumerate(aliasing.effects):
        for value in effects.writes:
            writes.update(params.intersection(aliasing.roots_at(value, position)))
    return frozenset(writes)


def _static_bytes(type: ir.TensorType) -> int | None:
    """The bytes that a tensor spans; None if they depend on a symbol."""
    sizes, strides = _constants(type.sizes), _constants(type.strides)
    if None in sizes or None in strides:
        return None
    return extent([n or 0 for n in sizes], [n or 0 for n in strides]) * type.dtype.itemsize


def _apart(
    entry: Sequence[tuple[ir.Value, Input]], program: ir.Program, analyses: Analyses
) -> tuple[tuple[ir.Value, Input], ...]:
    """Adds `apart` to each input whose storage is resized. The offset of an input in its storage is unknown,
    so another input in that storage might be outside of it afterwards."""
    resized, last = _resized(program, analyses)
    inputs: list[tuple[ir.Value, Input]] = []
    for value, want in entry:
        if isinstance(want, TensorInput) and value in resized:
            others = ((n, v) for n, (v, _) in enumerate(entry) if v is not value and ir.is_tensor(v))
            want = replace(want, apart=tuple(n for n, v in others if last.get(v, -1) > resized[value]))
        inputs.append((value, want))
    return tuple(inputs)


def _resized(program: ir.Program, analyses: Analyses) -> tuple[dict[ir.Value, int], dict[ir.Value, int]]:
    """The position of each parameter's first resize in `main`; if any is resized, also that of each last
    use."""
    main, aliasing = program.main, analyses.aliasing(program.main)
    params = {param.value for param in main.params}
    first: dict[ir.Value, int] = {}
    for position, resize in main.positions_of(ir.ResizeStorage):  # only main may resize (WIR029)
        for root in params.intersection(aliasing.roots_at(resize.target, position)):
            first.setdefault(root, position)
    last: dict[ir.Value, int] = {}
    for position, op in enumerate(main.body if first else ()):
        for value in ir.operands(op):
            last.update(dict.fromkeys(params.intersection(aliasing.roots_at(value, position)), position))
    return first, last


def type_text(type: ir.TensorType) -> str:
    """A tensor's type in the text form of programs, without its device."""
    sizes = ", ".join(map(str, type.sizes))
    strides = "" if ir.is_contiguous(type.sizes, type.strides) else f"{{{', '.join(map(str, type.strides))}}}"
    return f"{type.dtype.value}[{sizes}]{strides}"


def _name(number: int, value: ir.Value, signature: ir.Signature | None) -> str:
    if signature is None or number >= len(signature.params):
        return value.name
    leaf = signature.params[number]
    return signature.names[leaf] if 0 <= leaf < len(signature.names) else value.name


def _input(value: ir.Value, name: str, program: ir.Program) -> Input | None:
    match value.type:
        case ir.TensorType(dtype=dtype, sizes=sizes, strides=strides, device=device):
            return TensorInput(
                name=name,
                text=type_text(value.type),
                dtype=dtype.value,
                device=str(device),
                sizes=_constants(sizes),
                strides=_constants(strides),
                or_cpu=not sizes
                and device.type != "cpu"
                and _is_operand_of_operators(value, program.main, program),
            )
        case ir.ScalarType(kind=kind):
            return NumberInput(name=name, kind=kind.value)
        case _:  # a handle is opaque: the operator that uses it checks it
            return None


def _is_operand_of_operators(value: ir.Value, function: ir.Function, program: ir.Program) -> bool:
    """Returns whether `value`, a tensor of rank 0, is used and only operators access its elements.

    Operators accept a rank-0 tensor on the CPU beside tensors on any device, and some return one: the seed
    and offset of an attention operator are on the CPU, except in a CUDA graph, although its meta function
    reports the device. Kernels need an address on the device.
    """
    is_used = False
    for op in function.body:
        if value not in ir.operands(op):
            continue
        match op:
            case ir.CallSubgraph():
                callee = program.function(op.function)
                params = [p.value for p, arg in zip(callee.params, op.args, strict=True) if arg is value]
                if not all(_is_operand_of_operators(v, callee, program) for v in params):
                    return False
                is_used = True
            case ir.CallExtern():
                is_used = True
            case ir.AssertLayout() | ir.Drop() | ir.Free():
                pass  # they accept a tensor on the CPU or on the device
            case _:
                return False
    return is_used


def _constants(exprs: Sequence[Expr]) -> tuple[int | None, ...]:
    return tuple([e.integer for e in exprs])


def _own_checks(body: Sequence[ir.Op]) -> dict[_Layout, list[int]]:
    """Positions of the program's own checks of layouts that precede any change of a parameter."""
    checks: dict[_Layout, list[int]] = {}
    for position, op in enumerate(itertools.takewhile(lambda op: isinstance(op, _PROLOGUE), body)):
        match op:
            case ir.AssertLayout():
                for layout in ir.asserted_layouts(op):
                    checks.setdefault(layout, []).append(position)
            case _:
                pass
    return checks


def _open_symbols(
    value: ir.Value, type: ir.TensorType, body: Sequence[ir.Op], defined: Mapping[str, int]
) -> frozenset[str]:
    """The symbols in sizes and strides, except for sizes and strides that define their symbol."""
    symbols: frozenset[str] = frozenset()
    pairs: list[tuple[Expr, Expr]] = [(e, ir.SizeOf(value, d)) for d, e in enumerate(type.sizes)]
    pairs += [(e, ir.StrideOf(value, d)) for d, e in enumerate(type.strides)]
    for expr, atom in pairs:
        name = expr.symbol
        if name is not None and name in defined:
            define = body[defined[name]]
            if isinstance(define, ir.Define) and define.expr == atom:
                continue
        symbols |= expr.free_symbols
    return symbols
