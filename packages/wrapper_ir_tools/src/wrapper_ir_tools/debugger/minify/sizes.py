"""Sizes that are numbers, made smaller throughout a program.

A candidate replaces a size everywhere, with the strides, counts and bytes that follow from it. Whether it is right is for the
verifier to say, and for the check that is to fail. No candidate changes what a kernel has in its source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wrapper_ir.artifact import Artifact
from wrapper_ir.expr import Int
from wrapper_ir_tools.debugger.minify.kernel_sizes import kernels_with_sizes
from wrapper_ir_tools.debugger.minify.numbers import changed_numbers, tensor_types
from wrapper_ir_tools.debugger.minify.resized import resized

_SMALLEST = 2


def number_sizes(programs: Sequence[Artifact]) -> list[int]:
    """The sizes of tensors that are numbers and could be smaller, from the largest one on."""
    found = {
        size.value
        for artifact in programs
        for type in tensor_types(artifact.program)
        for size in type.sizes
        if isinstance(size, Int)
    }
    return sorted((n for n in found if n > _SMALLEST), reverse=True)


def smaller_sizes(size: int) -> list[int]:
    """What to try in place of a size, the smallest first."""
    tried = {_SMALLEST, _SMALLEST + 1, size // 8, size // 4, size // 2}
    return sorted(n for n in tried if _SMALLEST <= n < size)


class Resizing:
    """Makes candidates, and notes the kernels that forbid some."""

    def __init__(self) -> None:
        self._kernels: dict[str, None] = {}

    def candidates(self, programs: Sequence[Artifact], old: int, new: int) -> Iterator[tuple[Artifact, ...]]:
        """The programs with `new` in place of the size `old`: multiples of it stay, or change with it."""
        for with_multiples in (False, True):
            made = [self._resized(artifact, old, new, with_multiples) for artifact in programs]
            found = tuple(artifact for artifact in made if artifact is not None)
            if len(found) == len(programs):
                yield found

    def notes(self, programs: Sequence[Artifact]) -> list[str]:
        """A line about the kernels because of which sizes stayed."""
        launched = {k.name for artifact in programs for k in artifact.program.kernels}
        names = ", ".join(f"@{name}" for name in self._kernels if name in launched)
        return [f"sizes that are numbers stay where {names} may have them in the source"] if names else []

    def _resized(self, artifact: Artifact, old: int, new: int, with_multiples: bool) -> Artifact | None:
        numbers = changed_numbers(artifact.program, old, new, with_multiples)
        if numbers is None:
            return None
        fixed = kernels_with_sizes(artifact.program, numbers)
        self._kernels |= dict.fromkeys(fixed)
        return None if fixed else resized(artifact, numbers)
