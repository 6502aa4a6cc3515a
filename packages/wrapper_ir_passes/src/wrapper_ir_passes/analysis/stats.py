"""Computes statistics of a program: counts of its parts, and its memory use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.analysis.own_memory import function_foreign_memory
from wrapper_ir.analysis.sizes import Sizes
from wrapper_ir.support.collection import paused_collection
from wrapper_ir_passes.analysis.memory import MemoryUse, memory_use
from wrapper_ir_passes.analysis.regions import RegionOptions, find_regions


@dataclass(frozen=True, slots=True)
class ProgramStats:
    """Statistics of a program. Bytes are those of one call of `main` under the hints, without constants."""

    ops: dict[str, int]
    """Number of ops by class, the most frequent first."""
    kernels: dict[str, int]
    """Number of kernel definitions by kind."""
    functions: int
    constants: int
    constant_bytes: int
    memory: MemoryUse
    assumed: tuple[str, ...]
    """Symbols without hint, which were evaluated at their lower bound."""
    replayable: int
    """Number of functions that a device can capture."""
    not_replayed: dict[str, int]
    """On a device that captures: the number of other ops of `main` that each reason excludes from such
    functions."""
    foreign_memory: dict[str, str]
    """For each replayable function that allocates outside of the program's memory, the first reason. C++
    libraries do not capture it."""

    def rows(self) -> Iterator[tuple[str, str]]:
        """(name, value) for display."""
        yield "functions", str(self.functions)
        yield "ops", str(sum(self.ops.values()))
        for name, count in self.ops.items():
            yield f"  {name}", str(count)
        yield "kernels", str(sum(self.kernels.values()))
        for name, count in self.kernels.items():
            yield f"  {name}", str(count)
        yield "constants", f"{self.constants} ({shown_bytes(self.constant_bytes)})"
        yield "bytes allocated", shown_bytes(self.memory.allocated)
        yield "peak bytes held", shown_bytes(self.memory.peak)
        yield "live bytes in this order", shown_bytes(self.memory.live)
        yield "bound of plans in this order", shown_bytes(self.memory.bound)
        if self.replayable or self.not_replayed:
            yield "replayable functions", str(self.replayable)
            for why, count in self.not_replayed.items():
                yield f"  {count} ops not captured", why
            for name, why in self.foreign_memory.items():
                yield f"  @{name} not captured in C++", why
        if self.assumed:
            yield "symbols without hint", ", ".join(self.assumed)


@paused_collection()
def program_stats(program: ir.Program, hints: Mapping[str, int] | None = None) -> ProgramStats:
    """Statistics of a valid program; `hints` are values of symbols and take precedence over those of
    declarations.

    Raises ExpressionError if a size has no value under the hints (a division by zero).
    """
    analyses = Analyses(program)
    sizes = Sizes(program, hints)
    ops = Counter(type(op).__name__ for op in program.ops)
    kernels = Counter(ir.runtime_kind(k) for k in program.kernels)
    return ProgramStats(
        ops=dict(ops.most_common()),
        kernels=dict(kernels.most_common()),
        functions=len(program.functions),
        constants=len(program.constants),
        constant_bytes=sum(sizes.bytes_of(c.value) for c in program.constants),
        memory=memory_use(program.main, analyses, sizes),
        assumed=tuple(sorted(sizes.assumed)),
        replayable=sum(f.replayable for f in program.functions),
        not_replayed=_not_replayed(program),
        foreign_memory={
            f.name: why
            for f in program.functions
            if f.replayable and (why := function_foreign_memory(f.name, analyses))
        },
    )


def _not_replayed(program: ir.Program) -> dict[str, int]:
    if program.target.device == ir.CPU:
        return {}
    return dict(find_regions(Analyses(program), RegionOptions()).reasons)


def shown_bytes(n: int) -> str:
    """A number of bytes, exact and readable."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n} ({n / size:.2f} {unit})"
    return str(n)
