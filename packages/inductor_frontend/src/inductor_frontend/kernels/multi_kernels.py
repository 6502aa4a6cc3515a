"""Multi-kernels: merges the launches of alternative kernels into one launch, which runs one of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from inductor_frontend.triton.definition import TritonDefinition
from wrapper_ir import ir
from wrapper_ir.expr import Expr, Int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One kernel with the arguments of a call.

    `positions`: for each of `args`, its position among the arguments of Inductor's call. `grid`: the values
    of the kernel's grid parameters. `extents`: for each tensor among `args`, its extent in bytes. `hint`: the
    value that the kernel was generated for in place of dynamic sizes.
    """

    kernel: ir.CppKernel | ir.TritonKernel | ir.OperatorKernel | ir.ForeignKernel
    positions: tuple[int, ...]
    args: tuple[ir.Arg, ...]
    extents: tuple[Expr, ...]
    grid: tuple[Expr, ...]
    hint: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A merged launch: the multi-kernel with its arguments."""

    kernel: ir.MultiKernel
    args: tuple[ir.Arg, ...]
    extents: tuple[Expr, ...]
    grid: tuple[Expr, ...]


def leading(definition: TritonDefinition, first: Collection[int]) -> TritonDefinition:
    """Moves the parameters for Inductor's arguments at the positions `first` before all other parameters."""
    kernel = definition.kernel
    pairs = sorted(
        zip(definition.positions, kernel.params, strict=True), key=lambda p: (p[0] not in first, p[0])
    )
    params = tuple(param for _, param in pairs)
    return replace(definition, positions=tuple(i for i, _ in pairs), kernel=replace(kernel, params=params))


@dataclass(frozen=True, slots=True)
class MultiTable:
    """The multi-kernels of one program, by Inductor's name, their kernels and their extents."""

    kernels: dict[tuple[str, tuple[ir.Variant, ...], tuple[Expr, ...]], ir.MultiKernel] = field(
        default_factory=dict
    )

    def merged(self, name: str, parts: Sequence[Part]) -> Merged:
        """Merges `parts` into one launch. Each part starts with the arguments that all of them have."""
        arguments = {p: a for part in parts for p, a in zip(part.positions, part.args, strict=True)}
        sizes = {p: e for part in parts for p, e in zip(_tensors(part), part.extents, strict=True)}
        numbers = tuple(dict.fromkeys(g for part in parts for g in part.grid))
        order, grid = {p: i for i, p in enumerate(arguments)}, {n: i for i, n in enumerate(numbers)}
        variants = tuple(
            ir.Variant(
                kernel=part.kernel.name,
                args=tuple(order[p] for p in part.positions),
                grid=tuple(grid[n] for n in part.grid),
                hints=_hints(part),
            )
            for part in parts
        )
        extents = tuple(sizes[p] for p in arguments if p in sizes)
        kernel = self.kernels.get((name, variants, extents))
        if kernel is None:
            count = sum(other == name for other, *_ in self.kernels)
            kernel = ir.MultiKernel(
                name=name if count == 0 else f"{name}_{count}",
                params=_params(tuple(arguments), parts),
                variants=variants,
                choice=ir.Choice.MEASURE if parts[0].hint is None else ir.Choice.SIZE_HINTS,
                grid_params=tuple(f"grid_{i}" for i in range(len(grid))),
            )
            self.kernels[name, variants, extents] = kernel
        return Merged(kernel=kernel, args=tuple(arguments.values()), extents=extents, grid=numbers)


def _tensors(part: Part) -> Iterator[int]:
    """Returns the positions of a part's tensors."""
    return (p for p, param in zip(part.positions, part.kernel.params) if param.kind.takes_tensor)


def _hints(part: Part) -> tuple[tuple[int, ...], ...]:
    """Returns the sizes of a part's tensors that its kernel was generated for."""
    if part.hint is None:
        return ()
    return tuple(
        tuple(size.value if isinstance(size, Int) else part.hint for size in arg.type.sizes)
        for arg in part.args
        if ir.is_tensor(arg)
    )


def _params(positions: Sequence[int], parts: Sequence[Part]) -> tuple[ir.KernelParam, ...]:
    """Returns the parameters of the merged launch.

    Accesses and aliases cover all kernels. Names are those of the first kernel with the parameter.
    """
    names: dict[int, str] = {}
    params: dict[int, list[ir.KernelParam]] = {p: [] for p in positions}
    for part in parts:
        for position, param in zip(part.positions, part.kernel.params, strict=True):
            params[position].append(param)
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
            params[p][0],
            name=names[p],
            access=ir.merged_access([q.access for q in params[p]], everywhere=len(params[p]) == len(parts)),
            may_alias=tuple(n for n in names.values() if n in aliases[p]),
            may_overlap=tuple(n for n in names.values() if n in overlaps[p]),
            divisible=max(q.divisible for q in params[p]),
        )
        for p in positions
    )


def _unlike(name: str, others: set[str]) -> str:
    count = 0
    unique = name
    while unique in others:
        count += 1
        unique = f"{name}_{count}"
    return unique
