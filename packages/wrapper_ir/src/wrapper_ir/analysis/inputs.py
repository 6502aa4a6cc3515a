"""The input checks of a call, and the program's own checks that they make redundant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wrapper_ir import ir
from wrapper_ir.analysis.input_facts import Input, NumberInput, StorageInput, TensorInput, extent
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.expr import Expr, Int, Sym

_PROLOGUE = (ir.Define, ir.AssertExpr, ir.AssertLayout, ir.Comment, ir.Drop)
"""Ops before which nothing can have changed an input."""
_Layout = tuple[ir.Value, tuple[Expr, ...], tuple[Expr, ...]]
"""A value with sizes and strides."""
_SAFE = (ir.AssertLayout, ir.CallExtern, ir.Drop, ir.Free)
"""Ops that do not look at where a tensor's memory is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChecks:
    """`entry` are the arguments to check before the first op, each with its parameter.

    `layouts` gives, by position in `main`, the parameters whose whole layout is checked after the op there, which defines
    the last symbol that it mentions. `covered` are positions of `AssertLayout` ops, each with a parameter whose sizes and
    strides were checked already, or are guarded: only its alignment is left to do. `storages` are the arguments whose elements
    the program reads or writes before it resizes their storage, guarded ones as well: no guard looks at a storage.
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
    """The checks of `main`'s parameters, less those that are `guarded`. Names are the signature's, which a caller knows, or
    else the parameters'. `analyses` is the program's memo, made where it is missing."""
    body = program.main.body
    defined = {op.symbol: number for number, op in enumerate(body) if isinstance(op, ir.Define)}
    entry: list[tuple[ir.Value, Input]] = []
    layouts: dict[int, list[ir.Value]] = {}
    covered: set[tuple[int, ir.Value]] = set()
    checks = _own_checks(body)
    for number, param in enumerate(program.main.params):
        value, type = param.value, param.value.type
        own = checks.get((value, type.sizes, type.strides), []) if isinstance(type, ir.TensorType) else []
        if value.name in guarded.params:
            covered.update((position, value) for position in own)
            continue
        made = _input(value, _name(number, value, signature), program)
        if made is not None:
            entry.append((value, made))
        if not ir.is_tensor(value):
            continue
        open_symbols = _open_symbols(value, value.type, body, defined)
        if not open_symbols:
            covered.update((position, value) for position in own)
        elif not own and open_symbols <= defined.keys():
            exprs = (*value.type.sizes, *value.type.strides)
            last = max(defined[s] for expr in exprs for s in expr.free_symbols)
            if ir.is_used(value, body[last + 1 :]):  # else it has ended, or nothing needs it
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
    """An argument that is not touched needs no memory, nor one whose storage comes empty and is filled by the program."""
    main, aliasing = program.main, analyses.aliasing(program.main)
    left: set[ir.Value] = {param.value for param in main.params if ir.is_tensor(param.value)}
    touched: set[ir.Value] = set()
    for position, op in enumerate(main.body):
        if not left:
            break
        if isinstance(op, ir.ResizeStorage | ir.SetStorage):
            for root in aliasing.roots_at(op.target, position):
                left.discard(root)
            used: Iterable[ir.Value] = (op.source,) if isinstance(op, ir.SetStorage) else ()
        else:
            effects = aliasing.effects[position]
            used = (*effects.reads, *effects.writes)
        for value in used:
            for root in aliasing.roots_at(value, position):
                if root in left:
                    left.remove(root)
                    touched.add(root)
    for number, param in enumerate(main.params):
        value = param.value
        if value in touched and ir.is_tensor(value):
            needed = _static_bytes(value.type)
            yield (
                value,
                StorageInput(
                    name=_name(number, value, signature), nbytes=needed, itemsize=value.type.dtype.itemsize
                ),
            )


def written_params(program: ir.Program, analyses: Analyses | None = None) -> frozenset[ir.Value]:
    """The parameters of `main` whose elements the program writes."""
    analyses = Analyses.of(program, analyses)
    main, aliasing = program.main, analyses.aliasing(program.main)
    params = {param.value for param in main.params}
    found: set[ir.Value] = set()
    for position in range(len(main.body)):
        for value in aliasing.effects[position].writes:
            found.update(params.intersection(aliasing.roots_at(value, position)))
    return frozenset(found)


def _static_bytes(type: ir.TensorType) -> int | None:
    """The bytes that a tensor spans, where numbers say it."""
    sizes, strides = _known(type.sizes), _known(type.strides)
    if None in sizes or None in strides:
        return None
    return extent([n or 0 for n in sizes], [n or 0 for n in strides]) * type.dtype.itemsize


def _apart(
    entry: Sequence[tuple[ir.Value, Input]], program: ir.Program, analyses: Analyses
) -> tuple[tuple[ir.Value, Input], ...]:
    """Says of each input whose storage is resized which others must lie elsewhere. Nothing says where an input lies in its
    storage, so nothing says that another one is still inside it afterwards."""
    resized, last = _resized(program, analyses)
    made: list[tuple[ir.Value, Input]] = []
    for value, want in entry:
        if isinstance(want, TensorInput) and value in resized:
            others = (
                (n, v) for n, (v, w) in enumerate(entry) if v is not value and isinstance(w, TensorInput)
            )
            want = replace(want, apart=tuple(n for n, v in others if last.get(v, -1) > resized[value]))
        made.append((value, want))
    return tuple(made)


def _resized(program: ir.Program, analyses: Analyses) -> tuple[dict[ir.Value, int], dict[ir.Value, int]]:
    """Where the storage of each parameter of `main` is first resized, and, if any is, where each is last used."""
    body, aliasing = program.main.body, analyses.aliasing(program.main)
    params = {param.value for param in program.main.params}
    first: dict[ir.Value, int] = {}
    for position, op in enumerate(body):
        if isinstance(op, ir.ResizeStorage):  # main alone may (WIR029)
            for root in params.intersection(aliasing.roots_at(op.target, position)):
                first.setdefault(root, position)
    last: dict[ir.Value, int] = {}
    for position, op in enumerate(body if first else ()):
        for value in ir.operands(op):
            last.update(dict.fromkeys(params.intersection(aliasing.roots_at(value, position)), position))
    return first, last


def type_text(type: ir.TensorType) -> str:
    """A tensor's type as programs write it, without its device."""
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
                sizes=_known(sizes),
                strides=_known(strides),
                or_cpu=not sizes
                and device.type != "cpu"
                and _only_operators_take(value, program.main, program),
            )
        case ir.ScalarType(kind=kind):
            return NumberInput(name=name, kind=kind.value)
        case _:  # a handle: whoever takes it knows what it is
            return None


def _only_operators_take(value: ir.Value, function: ir.Function, program: ir.Program) -> bool:
    """Operators take a number in the CPU's memory with tensors anywhere, and some make it there: the seed and offset of an
    attention operator lie on the CPU, except in a CUDA graph, while the operator's meta function says that they are on the
    device. Kernels take addresses, which have to be the device's."""
    found = False
    for op in function.body:
        if value not in ir.operands(op):
            continue
        if isinstance(op, ir.CallSubgraph):
            callee = program.function(op.function)
            inside = [p.value for p, arg in zip(callee.params, op.args, strict=True) if arg is value]
            if not all(_only_operators_take(v, callee, program) for v in inside):
                return False
        elif not isinstance(op, _SAFE):
            return False
        found = found or isinstance(op, ir.CallExtern | ir.CallSubgraph)
    return found


def _known(exprs: Sequence[Expr]) -> tuple[int | None, ...]:
    return tuple(e.value if isinstance(e, Int) else None for e in exprs)


def _own_checks(body: Sequence[ir.Op]) -> dict[_Layout, list[int]]:
    """Positions of the program's own checks of tensors' layouts, before anything could change a parameter."""
    found: dict[_Layout, list[int]] = {}
    for position, op in enumerate(body):
        if not isinstance(op, _PROLOGUE):
            break
        if isinstance(op, ir.AssertLayout):
            for layout in ir.asserted_layouts(op):
                found.setdefault(layout, []).append(position)
    return found


def _open_symbols(
    value: ir.Value, type: ir.TensorType, body: Sequence[ir.Op], defined: Mapping[str, int]
) -> frozenset[str]:
    """The symbols in those sizes and strides that the symbols' own definitions do not make true."""
    found: frozenset[str] = frozenset()
    pairs: list[tuple[Expr, Expr]] = [(e, ir.SizeOf(value, d)) for d, e in enumerate(type.sizes)]
    pairs += [(e, ir.StrideOf(value, d)) for d, e in enumerate(type.strides)]
    for expr, atom in pairs:
        if isinstance(expr, Sym) and expr.name in defined:
            define = body[defined[expr.name]]
            if isinstance(define, ir.Define) and define.expr == atom:
                continue
        found |= expr.free_symbols
    return found
