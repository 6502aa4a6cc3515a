"""Options of choosing among kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from triton_runtime.tune.decide import NOISE
from triton_runtime.tune.measure import MeasureOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """What was chosen: variant `index` of the multi-kernel, which is the kernel `chosen`; `why` is `measured`, `stored`,
    `recorded`, `forced`, `off` or `sizes`. `means` are typical seconds of each variant that was measured, in order; None: not
    at all. `names` and `paths` are what the variants are called and the files of their sources, in order."""

    kernel: str
    index: int
    chosen: str
    why: str
    means: tuple[float | None, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


Picked = Callable[[Pick], object]
"""Is told of each choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOptions:
    """`measure`: False takes the first kernel. `force`: takes the kernel of this index, from 0; an index that a
    multi-kernel does not have is an error. `stored`: whether choices outlive the process. `noise`: relative differences
    below it decide nothing. `budget`: bytes of the device for copies of arguments. `picked`: a table of metrics, say.
    `sources`: the folder of kernels' sources, for whoever is told of choices."""

    measure: bool = True
    force: int | None = None
    stored: bool = True
    noise: float = NOISE
    budget: int = 1 << 30
    rounds: MeasureOptions = field(default_factory=MeasureOptions)
    picked: Picked | None = None
    sources: Path | None = None
