"""WIR028: the kernels of a multi-kernel agree on their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wrapper_ir import ir

_Chosen = ir.TritonKernel | ir.OperatorKernel


def multi_faults(kernel: ir.MultiKernel, kernels: Mapping[str, ir.KernelDef]) -> Iterator[str]:
    """What is wrong with a multi-kernel of a program with these kernels."""
    if not kernel.variants:
        yield "there is nothing to choose from"
    found: list[tuple[ir.Variant, _Chosen]] = []
    for variant in kernel.variants:
        chosen = kernels.get(variant.kernel)
        if not isinstance(chosen, ir.TritonKernel | ir.OperatorKernel):
            yield f"@{variant.kernel} is neither a Triton kernel nor an operator"
            continue
        faults = [*_positions(kernel, variant, chosen)]
        yield from faults
        if not faults:
            found.append((variant, chosen))
    if not found or len(found) < len(kernel.variants):
        return
    yield from _prefix(kernel)
    for position, param in enumerate(kernel.params):
        yield from _param(kernel, position, param, found)
    if kernel.choice is ir.Choice.SIZE_HINTS:
        for variant, chosen in found:
            tensors = sum(p.kind.takes_tensor for p in chosen.params)
            if len(variant.hints) != tensors:
                yield f"@{variant.kernel} has {tensors} tensors, and hints for {len(variant.hints)}"


def _positions(kernel: ir.MultiKernel, variant: ir.Variant, chosen: _Chosen) -> Iterator[str]:
    """Arguments and grid numbers of one kernel are among those of the launch."""
    grid_params = chosen.grid_params if isinstance(chosen, ir.TritonKernel) else ()
    for what, given, wanted, there in (
        ("arguments", variant.args, len(chosen.params), len(kernel.params)),
        ("numbers of the grid", variant.grid, len(grid_params), len(kernel.grid_params)),
    ):
        if len(given) != wanted:
            yield f"@{variant.kernel} takes {wanted} {what}, given {len(given)}"
        if len(set(given)) != len(given) or not all(0 <= i < there for i in given):
            yield f"@{variant.kernel} is given {what} {list(given)} of {there}"


def _prefix(kernel: ir.MultiKernel) -> Iterator[str]:
    """What all take comes first, for all in one order; what none takes is not there."""
    taken = [set(v.args) for v in kernel.variants]
    common = sorted(set.intersection(*taken))
    for variant in kernel.variants:
        if [*variant.args[: len(common)]] != [*range(len(common))]:
            yield f"@{variant.kernel} does not begin with the {len(common)} arguments that all kernels take"
    for position in sorted(set(range(len(kernel.params))) - set[int]().union(*taken)):
        yield f"no kernel takes {kernel.params[position].name}"


def _param(
    kernel: ir.MultiKernel, position: int, param: ir.KernelParam, found: list[tuple[ir.Variant, _Chosen]]
) -> Iterator[str]:
    """One parameter, as each kernel that takes it has it."""
    theirs: list[ir.KernelParam] = []
    for variant, chosen in found:
        if position not in variant.args:
            continue
        other = chosen.params[variant.args.index(position)]
        theirs.append(other)
        if (other.kind, other.dtype) != (param.kind, param.dtype):
            shown = f"{other.kind.value} of {other.dtype.value}"
            yield f"{param.name} is a {param.kind.value} of {param.dtype.value}, to @{variant.kernel} a {shown}"
        names = {p.name: kernel.params[i].name for i, p in zip(variant.args, chosen.params, strict=True)}
        for what, mine, its in (
            ("alias", param.may_alias, other.may_alias),
            ("overlap", param.may_overlap, other.may_overlap),
        ):
            if {names[n] for n in its if n in names} != set(mine):
                yield f"@{variant.kernel} does not agree on what {param.name} may {what}"
    access = ir.merged_access([p.access for p in theirs], everywhere=len(theirs) == len(found))
    if theirs and access is not param.access:
        yield f"{param.name} is {param.access.value}, but its kernels make it {access.value}"
