"""Chooses the config of a kernel by measuring, once per device and numbers of a launch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from triton_runtime.errors import TuningError
from triton_runtime.protocols import ByteStore
from triton_runtime.tune.arguments import Preserved
from triton_runtime.tune.candidates import config_key, config_of, measured_config, neighbours, with_config
from triton_runtime.tune.decide import NOISE
from triton_runtime.tune.measure import MeasureOptions, Timer, attempt, measure, reason
from triton_runtime.tune.measurements import Entry, TuningKey
from triton_runtime.tune.timing_cache import TimingCache
from wrapper_ir import ir
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir.plugins.protocols import LoadedKernel

_LOG = logging.getLogger(__name__)

LoadEach = Callable[[Sequence[ir.TritonKernel]], Sequence[LoadedKernel | Exception]]
"""Compiles and loads kernels with one config each, possibly in parallel; returns kernels or errors."""

Derive = Callable[[ir.TritonKernel], Sequence[ir.TritonConfig]]
"""Returns configs beyond a kernel's listed ones, derived from its compiler's output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """Options of tuning.

    `noise`: relative differences below it are ignored. `budget`: bytes of the device for copies of arguments.
    `descent`: coordinate descent from the best listed config, for kernels that allow it, in at most `steps`
    steps.
    """

    measure: MeasureOptions = field(default_factory=MeasureOptions)
    noise: float = NOISE
    budget: int = 1 << 30
    descent: bool = False
    steps: int = 16


class Tuner:
    """Chooses configs on one device. Choices follow from the measurements of `timings` alone."""

    def __init__(
        self,
        load_each: LoadEach,
        timer: Timer,
        timings: TimingCache,
        *,
        store: ByteStore | None = None,
        derive: Derive | None = None,
        options: TuneOptions | None = None,
    ) -> None:
        self.options = options or TuneOptions()
        self.timings = timings
        self._load_each, self._timer, self._derive = load_each, timer, derive
        self._store = store
        self._chosen: dict[TuningKey, ir.TritonConfig] = {}

    def key(self, kernel: ir.TritonKernel, args: Sequence[object]) -> TuningKey:
        """The key of a choice: the kernel, and the numbers among these arguments (including those of the
        grid).
        """
        return self.timings.key(content_hash(kernel), [a for a in args if isinstance(a, int | float)])

    def choose(self, kernel: ir.TritonKernel, args: Sequence[object]) -> ir.TritonConfig:
        """Chooses the config for these arguments: measures unless the measurements or the store has times.

        Afterwards tensors are unchanged, except for those that the kernel only writes. Raises TuningError
        TR602 with every reason if no candidate runs; TR603.
        """
        if len(kernel.configs) == 1 and not (self._descends(kernel) or self._scales(kernel)):
            return kernel.configs[0]
        key = self.key(kernel, args)
        if key not in self._chosen:

            def fits(entry: Entry) -> bool:
                return any(entry.times.values()) and winner(kernel, entry, self.options.noise) is not None

            entry, _ = self.timings.entry(key, fits, lambda: self._tune(kernel, args), self._store)
            self._chosen[key] = self._config(kernel, entry)
        return self._chosen[key]

    def replay(self, kernel: ir.TritonKernel, args: Sequence[object]) -> ir.TritonConfig:
        """Returns the choice by the measurements of these numbers, or the nearest ones; never measures.

        Returns the first config if the measurements lack the kernel.
        """
        entry = self.timings.measurements.find(self.key(kernel, args))
        return kernel.configs[0] if entry is None or not entry.times else self._config(kernel, entry)

    # --- choosing

    def _config(self, kernel: ir.TritonKernel, entry: Entry) -> ir.TritonConfig:
        if not any(entry.times.values()):
            reasons = "".join(f"\n  {key}: {why}" for key, why in entry.failed.items())
            raise TuningError("TR602", f"no config of @{kernel.name} runs:{reasons}")
        decision = entry.decision(self.options.noise)
        config = measured_config(kernel, decision.winner)
        _LOG.info(
            "@%s: %s of %d configs%s; means in us: %s",
            kernel.name,
            decision.winner,
            len(entry.order),
            f" ({len(decision.tied)} equal ones)" if decision.inside_noise else "",
            {key: round(seconds * 1e6, 2) for key, seconds in decision.means.items()},
        )
        return config

    # --- measuring

    def _descends(self, kernel: ir.TritonKernel) -> bool:
        return self.options.descent and ir.Derivation.COORDINATE_DESCENT in kernel.derive

    def _scales(self, kernel: ir.TritonKernel) -> bool:
        return self._derive is not None and ir.Derivation.SCALED_REDUCTION in kernel.derive

    def _tune(self, kernel: ir.TritonKernel, args: Sequence[object]) -> Entry:
        more = self._derive(kernel) if self._derive is not None and self._scales(kernel) else ()
        with Preserved(kernel.params, args, self.options.budget, kernel.restore, kernel.reset) as preserved:
            entry = self._measured(kernel, (*kernel.configs, *more), args, preserved)
            if self._descends(kernel) and any(entry.times.values()):
                entry = self._descended(kernel, entry, args, preserved)
        return entry

    def _measured(
        self,
        kernel: ir.TritonKernel,
        configs: Sequence[ir.TritonConfig],
        args: Sequence[object],
        preserved: Preserved,
    ) -> Entry:
        keys = tuple(map(config_key, configs))
        loaded = self._load_each([with_config(kernel, config) for config in configs])
        runs = {
            k: partial(f, *args) for k, f in zip(keys, loaded, strict=True) if not isinstance(f, Exception)
        }
        failed = {k: reason(f) for k, f in zip(keys, loaded, strict=True) if isinstance(f, Exception)}
        able, refused = attempt(runs, preserved.ready)
        times = measure(
            able, self._timer, self.options.measure, before=preserved.ready, noise=self.options.noise
        )
        return Entry.of_seconds(keys, times, failed | refused)

    def _descended(
        self, kernel: ir.TritonKernel, entry: Entry, args: Sequence[object], preserved: Preserved
    ) -> Entry:
        """Moves from the best config to its best neighbour while that is faster by more than noise."""
        for _ in range(self.options.steps):
            best = self._config(kernel, entry)
            new = [c for c in neighbours(best) if config_key(c) not in entry.order]
            if not new:
                break
            measured = self._measured(kernel, (best, *new), args, preserved)
            entry = _joined(entry, measured)
            if self._config(kernel, entry) == best:
                break
        return entry


def _joined(entry: Entry, other: Entry) -> Entry:
    """Merges entries; listed candidates stay first."""
    merged = entry.merged(other)
    return replace(merged, order=tuple(dict.fromkeys((*entry.order, *other.order))))


def winner(kernel: ir.TritonKernel, entry: Entry, noise: float) -> ir.TritonConfig | None:
    """The config that follows from the times; None if the kernel has no such config."""
    return config_of(kernel, entry.decision(noise).winner)
