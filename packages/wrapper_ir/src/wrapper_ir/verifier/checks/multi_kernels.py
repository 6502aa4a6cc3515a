"""Checks that the kernels of a multi-kernel agree on their parameters (WIR028)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wrapper_ir import ir

_Candidate = ir.TritonKernel | ir.OperatorKernel


def multi_faults(kernel: ir.MultiKernel, kernels: Mapping[str, ir.KernelDef]) -> Iterator[str]:
    """The faults of a multi-kernel in a program with these kernels."""
    if not kernel.variants:
        yield "there is nothing to choose from"
    pairs: list[tuple[ir.Variant, _Candidate]] = []
    for variant in kernel.variants:
        candidate = kernels.get(variant.kernel)
        if not isinstance(candidate, _Candidate):
            yield f"@{variant.kernel} is neither a Triton kernel nor an operator"
            continue
        faults = [*_positions(kernel, variant, candidate)]
        yield from faults
        if not faults:
            pairs.append((variant, candidate))
    if not pairs or len(pairs) < len(kernel.variants):
        return
    yield from _prefix(kernel)
    for position, param in enumerate(kernel.params):
        yield from _param(kernel, position, param, pairs)
    if kernel.choice is ir.Choice.SIZE_HINTS:
        for variant, candidate in pairs:
            tensors = sum(p.kind.takes_tensor for p in candidate.params)
            if len(variant.hints) != tensors:
                yield f"@{variant.kernel} has {tensors} tensors, and hints for {len(variant.hints)}"


def _positions(kernel: ir.MultiKernel, variant: ir.Variant, candidate: _Candidate) -> Iterator[str]:
    """Checks that arguments and grid numbers of one kernel are among those of the launch."""
    for what, indices, count, available in (
        ("arguments", variant.args, len(candidate.params), len(kernel.params)),
        ("numbers of the grid", variant.grid, len(candidate.grid_params), len(kernel.grid_params)),
    ):
        if len(indices) != count:
            yield f"@{variant.kernel} takes {count} {what}, given {len(indices)}"
        if len(set(indices)) != len(indices) or not all(0 <= i < available for i in indices):
            yield f"@{variant.kernel} is given {what} {list(indices)} of {available}"


def _prefix(kernel: ir.MultiKernel) -> Iterator[str]:
    """Checks that common parameters come first, in one order, and that each parameter is used."""
    uses = [set(v.args) for v in kernel.variants]
    common = sorted(set.intersection(*uses))
    for variant in kernel.variants:
        if [*variant.args[: len(common)]] != [*range(len(common))]:
            yield f"@{variant.kernel} does not begin with the {len(common)} arguments that all kernels take"
    for position in sorted(set(range(len(kernel.params))) - set[int]().union(*uses)):
        yield f"no kernel takes {kernel.params[position].name}"


def _param(
    kernel: ir.MultiKernel, position: int, param: ir.KernelParam, pairs: list[tuple[ir.Variant, _Candidate]]
) -> Iterator[str]:
    """Checks one parameter against the corresponding parameter of each kernel."""
    others: list[ir.KernelParam] = []
    for variant, candidate in pairs:
        if position not in variant.args:
            continue
        other = candidate.params[variant.args.index(position)]
        others.append(other)
        if (other.kind, other.dtype) != (param.kind, param.dtype):
            text, own = (f"{p.kind.value} of {p.dtype.value}" for p in (other, param))
            yield f"{param.name} is a {own}, to @{variant.kernel} a {text}"
        names = {p.name: kernel.params[i].name for i, p in zip(variant.args, candidate.params, strict=True)}
        for what, mine, its in (
            ("alias", param.may_alias, other.may_alias),
            ("overlap", param.may_overlap, other.may_overlap),
        ):
            if {names[n] for n in its if n in names} != set(mine):
                yield f"@{variant.kernel} does not agree on what {param.name} may {what}"
    access = ir.merged_access([p.access for p in others], everywhere=len(others) == len(pairs))
    if others and access is not param.access:
        yield f"{param.name} is {param.access.value}, but its kernels make it {access.value}"
