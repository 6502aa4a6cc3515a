"""Several kernels for one job, of which one is chosen when the program is tuned or runs; library operators as kernels, so that
they can be among them."""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.ir.kernels.constants import ExactConstants, ScalarConstant
from wrapper_ir.ir.kernels.params import Access, KernelParam


class Choice(enum.Enum):
    """How one of the kernels is chosen."""

    MEASURE = "measure"
    """By measurement at the first launch."""
    SIZE_HINTS = "size_hints"
    """By the arguments' sizes: the kernel whose hints are nearest, in the sum of the distances of their logarithms to
    base 2. Nothing is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One kernel of several. Text: `@triton_red_0(0, 1, 2) grid(0) hints((1024, none), (1024), ())`.

    `args` are the positions of its arguments among those of the launch, `grid` of its grid's numbers. `hints`: for each
    tensor among its arguments, the sizes that it was made for, each perhaps None; empty where there are none.
    """

    syntax: ClassVar[str] = "{kernel:reference}({args})< grid({grid})>< hints({hints})>"

    kernel: str
    args: tuple[int, ...]
    grid: tuple[int, ...] = ()
    hints: tuple[tuple[int | None, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiKernel:
    """Kernels that compute the same. A launch gives arguments for `params`, which hold all that any of them takes, and
    numbers for `grid_params`.

    The first arguments are those that all of them take, in one order; after them come those that only some take, such as a
    workspace. `params` say what may happen whichever kernel is chosen: a tensor is written where any kernel writes it,
    and only where all of them write it without reading it is it `WRITE`.

    Text: `kernel multi @sum choose measure (read f32* x, write f32* y) variants( @sum_0(0, 1), @sum_1(0, 1), )`.
    """

    kind: ClassVar[str] = "multi"
    syntax: ClassVar[str] = (
        "kernel multi {name:reference} choose {choice} ({params})< over({grid_params:name})><| variants({variants:rows})>"
    )

    name: str
    params: tuple[KernelParam, ...]
    variants: tuple[Variant, ...]
    choice: Choice = Choice.MEASURE
    grid_params: tuple[str, ...] = ()


def merged_access(accesses: Collection[Access], *, everywhere: bool) -> Access:
    """What a multi-kernel may do through a parameter, from what the kernels that take it do; `everywhere`: all take it."""
    if not any(a.writes for a in accesses):
        return Access.READ if Access.READ in accesses else Access.NONE
    whole = everywhere and all(a is Access.WRITE for a in accesses)
    return Access.WRITE if whole else Access.READWRITE


OperatorConstant = ScalarConstant | tuple[int, ...]
"""A number, a string, an element type, None, or a list of whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperatorKernel(ExactConstants):
    """A call of an operator that writes what it computes into its arguments, as a kernel does.

    `params` and `constants` are called as the arguments of `schema`, which decides which are written, and give a value to
    each that has no default. Tensors keep the sizes and strides of what a launch passes.
    Text: `kernel operator @mm "aten::mm.out(...) -> ..." (read f32* self, read f32* mat2, write f32* out)`,
    `kernel operator @add "aten::add.out(...) -> ..." (read f32* self, write f32* out) constants(alpha = 2)`.
    """

    kind: ClassVar[str] = "operator"
    syntax: ClassVar[str] = "kernel operator {name:reference} {schema} ({params})< constants({constants})>"

    name: str
    params: tuple[KernelParam, ...]
    schema: str
    constants: tuple[tuple[str, OperatorConstant], ...] = ()
