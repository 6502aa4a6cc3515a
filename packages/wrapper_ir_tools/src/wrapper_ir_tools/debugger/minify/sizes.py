"""Shrinks constant sizes throughout a program.

A candidate replaces a size everywhere, with the strides, counts and bytes that derive from it. The verifier
and the failure check decide if it is valid. No candidate changes a number in a kernel's source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wrapper_ir.artifact import Artifact
from wrapper_ir_tools.debugger.minify.kernel_sizes import kernels_with_sizes
from wrapper_ir_tools.debugger.minify.numbers import changed_numbers, number_of, tensor_types
from wrapper_ir_tools.debugger.minify.resized import resized

_SMALLEST = 2


def number_sizes(programs: Sequence[Artifact]) -> list[int]:
    """Constant sizes of tensors that could be smaller, the largest first."""
    sizes = {number_of(e) for a in programs for type in tensor_types(a.program) for e in type.sizes}
    return sorted((n for n in sizes if n > _SMALLEST), reverse=True)


def smaller_sizes(size: int) -> list[int]:
    """Replacements to try for a size, the smallest first."""
    tried = {_SMALLEST, _SMALLEST + 1, size // 8, size // 4, size // 2}
    return sorted(n for n in tried if _SMALLEST <= n < size)


class Resizing:
    """Generates candidates, and records the kernels that forbid some."""

    def __init__(self) -> None:
        self._kernels: dict[str, None] = {}

    def candidates(self, programs: Sequence[Artifact], old: int, new: int) -> Iterator[tuple[Artifact, ...]]:
        """Yields the programs with `new` in place of the size `old`. Multiples of it are kept, or changed
        with it.
        """
        for with_multiples in (False, True):
            resized_all = [self._resized(artifact, old, new, with_multiples) for artifact in programs]
            valid = tuple(artifact for artifact in resized_all if artifact is not None)
            if len(valid) == len(programs):
                yield valid

    def notes(self, programs: Sequence[Artifact]) -> list[str]:
        """One line about the kernels that kept sizes from shrinking."""
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
