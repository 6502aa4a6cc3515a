"""Multi-kernels at run time: several loaded kernels behind one callable."""

from __future__ import annotations

import logging
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from triton_runtime.choose.options import ChoiceOptions, Pick
from triton_runtime.errors import TuningError
from triton_runtime.protocols import ByteStore
from triton_runtime.source import source_path
from triton_runtime.tune.arguments import Preserved
from triton_runtime.tune.distance import distance
from triton_runtime.tune.measure import Timer, attempt, measure
from triton_runtime.tune.measurements import Entry
from triton_runtime.tune.timing_cache import TimingCache
from wrapper_ir import ir
from wrapper_ir.json.kernel_hash import multi_hash
from wrapper_ir.plugins.protocols import LoadedKernel

_LOG = logging.getLogger(__name__)


class MultiLaunch:
    """A loaded multi-kernel, called like any kernel with the arguments of its parameters and the numbers of
    its grid.

    The first call chooses a kernel: by the times of the same kernels on the same device in `timings` or
    `store`, or by measuring. Size-hinted multi-kernels choose for each new combination of sizes and never
    measure. `chosen` is the index of the kernel that the last call ran.
    """

    def __init__(
        self,
        kernel: ir.MultiKernel,
        kernels: Mapping[str, ir.KernelDef],
        loaded: Mapping[str, LoadedKernel],
        timer: Timer,
        timings: TimingCache,
        store: ByteStore | None = None,
        options: ChoiceOptions | None = None,
    ) -> None:
        """Raises TuningError TR604 for a forced index that the kernel does not have."""
        self.kernel = kernel
        self.options = options or ChoiceOptions()
        self.chosen: int | None = None
        self._kernels, self._timer, self._timings = kernels, timer, timings
        self._store = store if self.options.stored else None
        count = len(kernel.params)
        self._takes = [_taker((*v.args, *(count + g for g in v.grid))) for v in kernel.variants]
        self._loaded = [loaded[v.kernel] for v in kernel.variants]
        self._by_sizes: dict[tuple[tuple[int, ...], ...], int] = {}
        force = self.options.force
        if force is not None and not 0 <= force < len(kernel.variants):
            raise TuningError(
                "TR604",
                f"@{kernel.name} has no kernel {force}: it has {len(kernel.variants)}",
                hint=f"choose one of 0 to {len(kernel.variants) - 1}",
            )
        self._fixed = self._without_looking()

    def __call__(self, *args: object) -> None:
        """Launches the kernel; chooses it first on the first call or for new sizes."""
        index = self._fixed
        if index is None:
            index = self._choose(args)
        self.chosen = index
        self._loaded[index](*self._takes[index](args))

    # --- choosing

    def _without_looking(self) -> int | None:
        """The choice if it does not depend on arguments."""
        if self.options.force is not None:
            return self._picked(self.options.force, "forced")
        if len(self._loaded) == 1 or (self.kernel.choice is ir.Choice.MEASURE and not self.options.measure):
            return self._picked(0, "off")
        return None

    def _choose(self, args: tuple[object, ...]) -> int:
        if self.kernel.choice is ir.Choice.SIZE_HINTS:
            sizes = _sizes(self.kernel, args)
            index = self._by_sizes.get(sizes)
            if index is None:
                index = self._by_sizes[sizes] = self._picked(self._nearest(sizes), "sizes")
            return index
        key = self._timings.key(multi_hash(self.kernel, self._kernels))
        entry, source = self._timings.entry(key, self._fits, lambda: self._measured(args), self._store)
        if not self._fits(entry):
            raise TuningError(
                "TR602", f"none of the kernels of @{self.kernel.name} runs:{self._reasons(entry)}"
            )
        decision = entry.decision(self.options.noise)
        means = tuple(decision.means.get(key) for key in entry.order)
        self._fixed = self._picked(int(decision.winner), source.value, means)
        return self._fixed

    def _nearest(self, sizes: tuple[tuple[int, ...], ...]) -> int:
        tensors = [i for i, p in enumerate(self.kernel.params) if p.kind.takes_tensor]
        shapes = dict(zip(tensors, sizes, strict=True))
        candidates = []
        for variant in self.kernel.variants:
            operand_sizes = [shapes[i] for i in variant.args if i in shapes]
            candidates.append((variant.hints, operand_sizes))
        return nearest(candidates)

    def _fits(self, entry: Entry) -> bool:
        """True if the times are of these kernels; damaged times, or those of another choice, are not."""
        return entry.order == variant_keys(self.kernel) and any(entry.times.values())

    def _measured(self, args: tuple[object, ...]) -> Entry:
        """Measures every kernel that runs."""
        keys = variant_keys(self.kernel)
        runs = {
            key: partial(loaded, *takes(args))
            for key, loaded, takes in zip(keys, self._loaded, self._takes, strict=True)
        }
        restore, reset = self._kept("restore"), self._kept("reset")
        with Preserved(self.kernel.params, args, self.options.budget, restore, reset) as preserved:
            able, failed = attempt(runs, preserved.ready)
            times = measure(
                able, self._timer, self.options.rounds, before=preserved.ready, noise=self.options.noise
            )
        return Entry.of_seconds(keys, times, failed)

    def _reasons(self, entry: Entry) -> str:
        return "".join(
            f"\n  {self.kernel.variants[int(key)].kernel}: {why}" for key, why in sorted(entry.failed.items())
        )

    def _kept(self, which: Literal["restore", "reset"]) -> set[str]:
        """Names of the parameters that any of the kernels restores or resets."""
        names: set[str] = set()
        for variant in self.kernel.variants:
            inner = self._kernels[variant.kernel]
            # an operator writes only its results
            if not isinstance(inner, ir.TritonKernel):
                continue
            outer = {
                p.name: self.kernel.params[i].name for p, i in zip(inner.params, variant.args, strict=True)
            }
            names.update(outer[name] for name in getattr(inner, which))
        return names

    def _paths(self) -> tuple[str, ...]:
        folder = self.options.sources
        if folder is None:
            return ()
        sources = [ir.source_of(self._kernels[v.kernel]) for v in self.kernel.variants]
        return tuple(str(source_path(source, folder)) for source in sources)

    def _picked(self, index: int, why: str, means: tuple[float | None, ...] = ()) -> int:
        kernel = self.kernel.variants[index].kernel
        microseconds = [None if m is None else round(m * 1e6, 2) for m in means]
        _LOG.info("@%s: @%s (%d), %s; means in us: %s", self.kernel.name, kernel, index, why, microseconds)
        if self.options.picked is not None:
            self.options.picked(
                Pick(
                    kernel=self.kernel.name,
                    index=index,
                    variant=kernel,
                    why=why,
                    means=means,
                    names=tuple(v.kernel for v in self.kernel.variants),
                    paths=self._paths(),
                )
            )
        return index


def variant_keys(kernel: ir.MultiKernel) -> tuple[str, ...]:
    """The keys of its kernels in measurements: their indices."""
    return tuple(map(str, range(len(kernel.variants))))


def _taker(positions: tuple[int, ...]) -> Callable[[tuple[object, ...]], tuple[object, ...]]:
    """Returns a function that selects the arguments at these positions."""
    match positions:
        case ():
            return lambda args: ()
        case (only,):
            return lambda args: (args[only],)
        case _:
            return operator.itemgetter(*positions)


# Any: the arguments of these parameters are tensors
def _sizes(kernel: ir.MultiKernel, args: tuple[Any, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(a.shape) for p, a in zip(kernel.params, args) if p.kind.takes_tensor)


# --- by sizes

Hints = Sequence[Sequence[int | None]]


def nearest(candidates: Sequence[tuple[Hints, Sequence[Sequence[int]]]]) -> int:
    """The index of the candidate whose hints are nearest to its tensors' sizes.

    The distance is the sum of differences of base-2 logarithms; those of 0 and less are -1. A candidate with
    a missing hint, or hints of another rank, comes last; among equals the first wins.
    """
    distances = [_distance(hints, sizes) for hints, sizes in candidates]
    return min(range(len(candidates)), key=lambda i: (distances[i], i))


def _distance(hints: Hints, sizes: Sequence[Sequence[int]]) -> float:
    if len(hints) != len(sizes) or any(len(h) != len(s) for h, s in zip(hints, sizes)):
        return math.inf
    pairs = [pair for h, s in zip(hints, sizes) for pair in zip(h, s)]
    if any(hint is None for hint, _ in pairs):
        return math.inf
    return distance((hint, size) for hint, size in pairs if hint is not None)
