"""Multi-kernels, which choose one of several equivalent kernels, and operators used as kernels."""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.ir.kernels.constants import ExactConstants, ScalarConstant
from wrapper_ir.ir.kernels.params import Access, KernelParam


class Choice(enum.Enum):
    """Method by which a multi-kernel chooses."""

    MEASURE = "measure"
    """By measurement at the first launch."""
    SIZE_HINTS = "size_hints"
    """By the arguments' sizes, without measurement: the kernel with the nearest hints, by the sum of the
    differences of base-2 logarithms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One kernel of a multi-kernel. Text: `@triton_red_0(0, 1, 2) grid(0) hints((1024, none), (1024), ())`.

    `args` are the positions of its arguments among those of the launch, `grid` those of its grid's numbers.
    `hints` has for each tensor argument the sizes that the kernel was generated for (None: unknown); empty:
    no hints.
    """

    syntax: ClassVar[str] = "{kernel:reference}({args})< grid({grid})>< hints({hints})>"

    kernel: str
    args: tuple[int, ...]
    grid: tuple[int, ...] = ()
    hints: tuple[tuple[int | None, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiKernel:
    """Kernels that compute the same results, of which each launch runs one.

    A launch passes arguments for `params`, the union of the kernels' parameters, and numbers for
    `grid_params`. The parameters common to all kernels are first, in one order, then those of only some
    kernels, such as a workspace. Access of a parameter covers every choice: it is written if any kernel
    writes it, and `WRITE` only if all kernels write it without reading it.

    Text: `kernel multi @sum choose measure (read f32* x, write f32* y) variants( @sum_0(0, 1), @sum_1(0, 1),
    )`.
    """

    kind: ClassVar[str] = "multi"
    on_host: ClassVar[bool] = False
    syntax: ClassVar[str] = (
        "kernel multi {name:reference} choose {choice} ({params})"
        "< over({grid_params:name})><| variants({variants:rows})>"
    )

    name: str
    params: tuple[KernelParam, ...]
    variants: tuple[Variant, ...]
    choice: Choice = Choice.MEASURE
    grid_params: tuple[str, ...] = ()


def merged_access(accesses: Collection[Access], *, everywhere: bool) -> Access:
    """Returns a multi-kernel's access through a parameter, from those of the kernels that have it.

    `everywhere`: all kernels have it.
    """
    if not any(a.writes for a in accesses):
        return Access.READ if Access.READ in accesses else Access.NONE
    whole = everywhere and all(a is Access.WRITE for a in accesses)
    return Access.WRITE if whole else Access.READWRITE


OperatorConstant = ScalarConstant | tuple[int, ...]
"""A number, a string, an element type, None, or a list of ints."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperatorKernel(ExactConstants):
    """A library operator used as a kernel: an out variant that writes its results into arguments.

    `params` and `constants` have the names of arguments of `schema`, and cover every argument without a
    default. The schema determines which are written. Tensors have the sizes and strides of the launch's
    arguments.

    Text: `kernel operator @mm "aten::mm.out(...) -> ..." (read f32* self, read f32* mat2, write f32*
    out)`, `kernel operator @add "aten::add.out(...) -> ..." (read f32* self, write f32* out) constants(alpha
    = 2)`.
    """

    kind: ClassVar[str] = "operator"
    on_host: ClassVar[bool] = False
    grid_params: ClassVar[tuple[str, ...]] = ()
    syntax: ClassVar[str] = "kernel operator {name:reference} {schema} ({params})< constants({constants})>"

    name: str
    params: tuple[KernelParam, ...]
    schema: str
    constants: tuple[tuple[str, OperatorConstant], ...] = ()
