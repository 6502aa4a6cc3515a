"""Options of choosing among kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from triton_runtime.tune.decide import NOISE
from triton_runtime.tune.measure import MeasureOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """A choice: `variant`, at `index` among the variants of the multi-kernel `kernel`.

    `why` is `measured`, `stored`, `recorded`, `forced`, `off` or `sizes`. `means` are mean seconds by
    variant; None if one was not measured. `names` and `paths` are the names of variants and the files of
    their sources, in order.
    """

    kernel: str
    index: int
    variant: str
    why: str
    means: tuple[float | None, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


Picked = Callable[[Pick], object]
"""Called with each choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOptions:
    """Options of choices among kernels.

    `measure`: False selects the first kernel. `force` selects the kernel of this index; an index out of range
    is an error. `stored`: whether choices outlive the process. `noise`: relative differences below it are
    ignored. `budget`: bytes of the device for copies of arguments. `picked` is called with each choice, for
    example a table of metrics. `sources` is the folder of kernels' sources, for `picked`.
    """

    measure: bool = True
    force: int | None = None
    stored: bool = True
    noise: float = NOISE
    budget: int = 1 << 30
    rounds: MeasureOptions = field(default_factory=MeasureOptions)
    picked: Picked | None = None
    sources: Path | None = None
