"""Multi-kernels: the launches of several kernels for one job, merged into the launch of one of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from inductor_frontend.triton.definition import TritonDefinition
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One kernel as a call launches it: `positions` are those of `args` among the arguments of Inductor's call, and
    `grid` has a number for each that the kernel's grid wants; `extents` a size for each tensor among `args`. `hint`: what
    sizes that are not known are taken for."""

    kernel: ir.CppKernel | ir.TritonKernel | ir.OperatorKernel | ir.ForeignKernel
    positions: tuple[int, ...]
    args: tuple[ir.Arg, ...]
    extents: tuple[Expr, ...]
    grid: tuple[Expr, ...]
    hint: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What to launch, and with what."""

    kernel: ir.MultiKernel
    args: tuple[ir.Arg, ...]
    extents: tuple[Expr, ...]
    grid: tuple[Expr, ...]


def leading(definition: TritonDefinition, first: Collection[int]) -> TritonDefinition:
    """The same kernel, with the parameters that take Inductor's arguments at the positions `first` before all others."""
    kernel = definition.kernel
    pairs = sorted(
        zip(definition.positions, kernel.params, strict=True), key=lambda p: (p[0] not in first, p[0])
    )
    params = tuple(param for _, param in pairs)
    return replace(definition, positions=tuple(i for i, _ in pairs), kernel=replace(kernel, params=params))


@dataclass(frozen=True, slots=True)
class MultiTable:
    """The multi-kernels of one program, by Inductor's name and by their kernels."""

    kernels: dict[tuple[str, tuple[ir.Variant, ...], tuple[Expr, ...]], ir.MultiKernel] = field(
        default_factory=dict
    )

    def merged(self, name: str, parts: Sequence[Part]) -> Merged:
        """One launch for all `parts`, which begin with the arguments that all of them take."""
        given = {p: a for part in parts for p, a in zip(part.positions, part.args, strict=True)}
        sizes = {p: e for part in parts for p, e in zip(_tensors(part), part.extents, strict=True)}
        numbers = tuple(dict.fromkeys(g for part in parts for g in part.grid))
        order, grid = {p: i for i, p in enumerate(given)}, {n: i for i, n in enumerate(numbers)}
        variants = tuple(
            ir.Variant(
                kernel=part.kernel.name,
                args=tuple(order[p] for p in part.positions),
                grid=tuple(grid[n] for n in part.grid),
                hints=_hints(part),
            )
            for part in parts
        )
        extents = tuple(sizes[p] for p in given if p in sizes)
        kernel = self.kernels.get((name, variants, extents))
        if kernel is None:
            count = sum(other == name for other, *_ in self.kernels)
            kernel = ir.MultiKernel(
                name=name if count == 0 else f"{name}_{count}",
                params=_params(tuple(given), parts),
                variants=variants,
                choice=ir.Choice.MEASURE if parts[0].hint is None else ir.Choice.SIZE_HINTS,
                grid_params=tuple(f"grid_{i}" for i in range(len(grid))),
            )
            self.kernels[name, variants, extents] = kernel
        return Merged(
            kernel=kernel,
            args=tuple(given.values()),
            extents=extents,
            grid=numbers,
        )


def _tensors(part: Part) -> Iterator[int]:
    """The positions of a part's tensors."""
    return (p for p, param in zip(part.positions, part.kernel.params) if param.kind.takes_tensor)


def _hints(part: Part) -> tuple[tuple[int, ...], ...]:
    """The sizes of a part's tensors that it was made for."""
    if part.hint is None:
        return ()
    types = (arg.type for arg in part.args if isinstance(arg, ir.Value))
    return tuple(
        tuple(size.value if isinstance(size, Int) else part.hint for size in type.sizes)
        for type in types
        if isinstance(type, ir.TensorType)
    )


def _params(positions: Sequence[int], parts: Sequence[Part]) -> tuple[ir.KernelParam, ...]:
    """The launch's parameters, which say what may happen whichever kernel is chosen; called as in the first kernel that
    has them."""
    names: dict[int, str] = {}
    theirs: dict[int, list[ir.KernelParam]] = {p: [] for p in positions}
    for part in parts:
        for position, param in zip(part.positions, part.kernel.params, strict=True):
            theirs[position].append(param)
            if position not in names:
                names[position] = _unlike(param.name, set(names.values()))
    aliases: dict[int, set[str]] = {p: set() for p in positions}
    overlaps: dict[int, set[str]] = {p: set() for p in positions}
    for part in parts:
        outer = {q.name: names[p] for p, q in zip(part.positions, part.kernel.params, strict=True)}
        for position, param in zip(part.positions, part.kernel.params, strict=True):
            aliases[position].update(outer[n] for n in param.may_alias)
            overlaps[position].update(outer[n] for n in param.may_overlap)
    return tuple(
        replace(
            theirs[p][0],
            name=names[p],
            access=ir.merged_access([q.access for q in theirs[p]], everywhere=len(theirs[p]) == len(parts)),
            may_alias=tuple(n for n in names.values() if n in aliases[p]),
            may_overlap=tuple(n for n in names.values() if n in overlaps[p]),
            divisible=max(q.divisible for q in theirs[p]),
        )
        for p in positions
    )


def _unlike(name: str, taken: set[str]) -> str:
    count = 0
    found = name
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    return found
