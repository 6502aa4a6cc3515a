"""The `KernelRuntime` of kind "triton"."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from triton_runtime.choose import ChoiceOptions, MetricsTable
from triton_runtime.compile.ahead import compiled_ahead
from triton_runtime.compile.early import EarlyCompilations
from triton_runtime.compile.forking import Forker
from triton_runtime.compile.local import LocalCompiler
from triton_runtime.compile.service import INDUCTORS_MODULES, CompileStats, Workers
from triton_runtime.cuda import CudaDriver
from triton_runtime.cuda.address_check import address_check
from triton_runtime.cuda.extension import AddressCheck, Extension
from triton_runtime.cuda.repeated import OperatorRepeater
from triton_runtime.errors import CompileError, KernelError, LaunchError, without_errors
from triton_runtime.loading import Compiler, Loader, Loading, launchable
from triton_runtime.operators import load_operator
from triton_runtime.options import TritonOptions
from triton_runtime.protocols import Binary, Driver, Launchable
from triton_runtime.settings import Settings, read_settings
from triton_runtime.tune import Measurements, Source, TimingCache, TuneOptions
from triton_runtime.tuning import Tuning, device_key
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import KernelRuntime, LoadedKernel, Machine
from wrapper_ir_runtime.cache import Cache, open_cache

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _World:
    """State that is shared by loads.

    It has the cache on disk, the driver of CUDA devices (which opens nothing before use), the fork server and
    the local compiler, jobs that were started early or refused by the compiler, and the times of each
    target's device.
    """

    settings: Settings
    cache: Cache
    cuda: CudaDriver
    forker: Forker = field(default_factory=Forker)
    local: LocalCompiler = field(default_factory=LocalCompiler)
    early: EarlyCompilations = field(default_factory=EarlyCompilations)
    refused: dict[str, CompileError] = field(default_factory=dict)
    timings: dict[ir.Target, TimingCache] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class TritonRuntime:
    """Compiles, caches and loads Triton kernels.

    Kernels of programs for `cuda` run on that device; those of programs for `cpu` in Triton's interpreter.
    `settings`: None reads the environment at every load. `stats` counts the results of kernel requests.
    """

    options: TritonOptions = field(default_factory=TritonOptions)
    settings: Settings | None = None
    kind: str = field(default="triton", init=False)
    stats: CompileStats = field(default_factory=CompileStats, init=False)
    _world: _World | None = field(default=None, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def with_tuning(self) -> TritonRuntime:
        """See `wrapper_ir.plugins.protocols.TuningRuntime`. Uses default tuning options unless others are
        set.
        """
        tuned = replace(self.options, tune=self.options.tune or TuneOptions())
        return TritonRuntime(options=tuned, settings=self.settings)

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        """Loads one kernel; see `load_all`."""
        return self.load_all([kernel], target)[kernel.name]

    def load_all(
        self, kernels: Sequence[ir.KernelDef], target: ir.Target, binaries: Sequence[ir.KernelBinary] = ()
    ) -> dict[str, LoadedKernel]:
        """Loads kernels, by name; those in neither `binaries` nor a store are compiled in parallel.

        A loaded kernel takes the arguments of its parameters, then the numbers of its grid, and returns None.
        Raises KernelError, CompileError, or LaunchError TR305 for a device without a driver.
        """
        if not kernels:
            return {}
        world = self._current()
        loader = self._loader(target, world, tuple(binaries))
        multis = [kernel for kernel in kernels if isinstance(kernel, ir.MultiKernel)]
        operators = [kernel for kernel in kernels if isinstance(kernel, ir.OperatorKernel)]
        plain = _by_name(_triton_kernels(kernels))
        tune = self._tune(world.settings)
        tuned = self._tuned(plain, multis, tune)
        ready = [self.launchable(k) for k in plain.values() if k not in tuned]
        loaded: dict[str, LoadedKernel] = {
            one.kernel.name: kernel for one, kernel in zip(ready, loader.load(ready), strict=True)
        }
        loaded |= {kernel.name: load_operator(kernel) for kernel in operators}
        if tuned or multis:
            options = replace(self.options, tune=tune, choice=self._choice(world.settings))
            tuning = Tuning(options, world.cache, self._timings(target, world), loader, target.device)
            loaded |= {kernel.name: tuning.tuned(kernel) for kernel in tuned}
            by_name = {kernel.name: kernel for kernel in kernels}
            loaded |= {kernel.name: tuning.multi(kernel, by_name, loaded) for kernel in multis}
        return loaded

    def start(
        self, kernels: Sequence[ir.KernelDef], target: ir.Target, binaries: Sequence[ir.KernelBinary] = ()
    ) -> Loading:
        """Loads kernels like `load_all`, in the background. Reading a kernel waits for all, and raises
        errors.
        """
        return Loading([kernel.name for kernel in kernels], lambda: self.load_all(kernels, target, binaries))

    def prepare(self, device_type: str) -> None:
        """See `wrapper_ir.plugins.protocols.PreparingRuntime`.

        The fork server imports the modules of Inductor's kernels, and the launcher is built if the wheel has
        none.
        """
        if device_type != "cuda":
            return
        world = self._current()
        if self.options.executor is None:
            world.forker.prepare(INDUCTORS_MODULES)
        if self.options.driver is None:
            world.cuda.prepare()

    def compile_early(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> None:
        """See `wrapper_ir.plugins.protocols.PreparingRuntime`. Skips kernels that are tuned when they are
        launched.
        """
        if target.device.type != "cuda" or self.options.driver is not None:
            return
        world = self._current()
        multis = [kernel for kernel in kernels if isinstance(kernel, ir.MultiKernel)]
        # loading reports it
        with suppress(KernelError):
            plain = _by_name(_triton_kernels(kernels))
            tuned = self._tuned(plain, multis, self._tune(world.settings))
            ready = [self.launchable(k) for k in plain.values() if k not in tuned]
            self._compiler(target, world).begin(ready)

    def address_check(self, positions: Sequence[int], addresses: Sequence[int]) -> AddressCheck | None:
        """See `wrapper_ir.plugins.protocols.AddressComparer`."""
        extension = self._extension()
        return None if extension is None else address_check(extension, positions, addresses)

    def storage_check(self) -> Callable[..., bool] | None:
        """See `wrapper_ir.plugins.protocols.StorageChecker`."""
        extension = None if self._world is None else self._world.cuda.opened
        return None if extension is None else extension.storage_check()

    def operator_repeater(self, device: ir.Device) -> OperatorRepeater | None:
        """See `wrapper_ir.plugins.repeating.RepeatingRuntime`."""
        if self.options.driver is not None or device.type != "cuda":
            return None
        return self._current().cuda.operator_repeater(device)

    def _extension(self) -> Extension | None:
        """The launcher's module; None without a CUDA driver, or if options name another driver."""
        if self.options.driver is not None:
            return None
        return self._current().cuda.native

    def compile(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, Binary]:
        """Compiles kernels; returns binaries by name. The device need not be present."""
        compiler = self._compiler(target, self._current())
        launchables = [self.launchable(kernel) for kernel in _by_name(kernels).values()]
        binaries = without_errors(compiler.compiled(launchables))
        return {one.kernel.name: binary for one, binary in zip(launchables, binaries, strict=True)}

    def compile_ahead(
        self, kernels: Sequence[ir.KernelDef], target: ir.Target, candidates: bool
    ) -> tuple[ir.KernelBinary, ...]:
        """See `wrapper_ir.plugins.protocols.AheadCompiler`. Candidates that the compiler refuses are omitted.

        Raises KernelError, CompileError.
        """
        launchables = [
            launchable(kernel, config)
            for kernel in _by_name(_triton_kernels(kernels)).values()
            for config in (kernel.configs if candidates else (self.options.choose(kernel),))
        ]
        compiler = self._compiler(target, self._current())
        results = zip(launchables, compiler.each(launchables), strict=True)
        return tuple(compiled_ahead([(one.kernel, binary) for one, binary in results]))

    def with_binaries(self, binaries: Sequence[ir.KernelBinary]) -> KernelRuntime:
        """See `wrapper_ir.plugins.protocols.AheadCompiler`. Statistics are shared with this runtime."""
        return _Carrying(self, tuple(binaries))

    def loader(self, target: ir.Target) -> Loader:
        """Returns a loader of kernels for a target, one config each, for callers that measure themselves."""
        return self._loader(target, self._current(), ())

    def launchable(self, kernel: ir.TritonKernel) -> Launchable:
        """A kernel with its config, arguments and grid, for drivers; not compiled."""
        return launchable(kernel, self.options.choose(kernel))

    @property
    def measurements(self) -> Measurements:
        """The times behind the choices so far: from options, from the store, and measured."""
        timings = () if self._world is None else tuple(self._world.timings.values())
        entries = {key: entry for t in timings for key, entry in t.measurements.entries.items()}
        return Measurements({**self.options.measurements.entries, **entries})

    @property
    def sources(self) -> Mapping[Source, int]:
        """The number of choices so far by the source of their times."""
        timings = () if self._world is None else tuple(self._world.timings.values())
        return {source: sum(t.sources[source] for t in timings) for source in Source}

    def tune(
        self,
        artifact: Artifact,
        *,
        machine: Machine[T] | None = None,
        others: Sequence[Artifact] = (),
        symbols: Mapping[str, int] | None = None,
        inputs: Sequence[object] | None = None,
        assume: bool = True,
    ) -> Artifact:
        """See `KernelTuner`, and `triton_runtime.programs`, which implements it.

        Times that are in no measurements (the artifact's, those of `others`, this runtime's) are
        measured; without a machine nothing is. Raises TuningError TR601, TR605.
        """
        # imported here: most users load kernels without tuning programs
        from triton_runtime.programs import Noise, TunableRuntime, known_times, replay_artifact, tune_artifact

        measurements = known_times(self.options.measurements, artifact, others)
        tune = self.options.tune or TuneOptions()
        noise = Noise(configs=tune.noise, kernels=self.options.choice.noise)
        if machine is None:
            return replay_artifact(artifact, measurements, symbols=symbols, noise=noise)
        tuner = replace(self, options=replace(self.options, measurements=measurements, tune=tune))
        tuner.stats = self.stats
        runtime = TunableRuntime(
            kernels=tuner.with_binaries(artifact.binaries),
            measurements=lambda: tuner.measurements,
            device=self.options.device_key or device_key(artifact.program.target.device),
            noise=noise,
        )
        return tune_artifact(runtime, artifact, machine, symbols=symbols, inputs=inputs, assume=assume)

    def _tune(self, settings: Settings) -> TuneOptions | None:
        return self.options.tune or (TuneOptions() if settings.tune else None)

    def _tuned(
        self,
        kernels: Mapping[str, ir.TritonKernel],
        multis: Sequence[ir.MultiKernel],
        tune: TuneOptions | None,
    ) -> list[ir.TritonKernel]:
        """Kernels whose config is chosen by measurement."""
        return [
            k
            for k in kernels.values()
            if _has_candidates(k) and (tune is not None or self._is_measured(k, multis))
        ]

    def _is_measured(self, kernel: ir.TritonKernel, multis: Sequence[ir.MultiKernel]) -> bool:
        """True if a template's kernel is measured beside other kernels.

        Then all of its configs are measured: instances of a template are unordered, so the first is not
        representative.
        """
        choice = self.options.choice
        measuring = choice.measure and choice.force is None
        return measuring and kernel.heuristic == _TEMPLATE and kernel.name in _measured(multis)

    def _compiler(
        self, target: ir.Target, world: _World, carried: tuple[ir.KernelBinary, ...] = ()
    ) -> Compiler:
        return Compiler(
            target=target,
            store=self.options.store or world.cache.store("triton"),
            folder=world.cache.places.root,
            stats=self.stats,
            workers=Workers(
                executor=self.options.executor,
                max_workers=world.settings.jobs,
                timeout=self.options.timeout,
                forker=world.forker,
                local=world.local if self.options.local else None,
            ),
            refused=world.refused,
            carried=carried,
            early=world.early,
        )

    def _loader(self, target: ir.Target, world: _World, carried: tuple[ir.KernelBinary, ...]) -> Loader:
        compiler = self._compiler(target, world, carried)
        return Loader(compiler, self.options.driver or _driver(target, compiler.folder, world))

    def _choice(self, settings: Settings) -> ChoiceOptions:
        """Options of choices among kernels; the environment may name a table for them if no option receives
        them.
        """
        choice = self.options.choice
        if choice.picked is not None or settings.metrics is None:
            return choice
        return replace(choice, picked=MetricsTable(settings.metrics))

    def _timings(self, target: ir.Target, world: _World) -> TimingCache:
        with self._lock:
            if target not in world.timings:
                device = self.options.device_key or device_key(target.device)
                world.timings[target] = TimingCache(
                    device, measurements=self.options.measurements, gather=self.options.gather
                )
            return world.timings[target]

    def _current(self) -> _World:
        """State that is shared by loads; recreated if the environment has changed."""
        settings = self.settings or read_settings()
        with self._lock:
            if self._world is None or self._world.settings != settings:
                self._world = _World(settings, open_cache(settings.cache), CudaDriver(settings=settings))
            return self._world


_TEMPLATE = "template"
"""The heuristic of kernels whose configs are instances of a template."""


def _triton_kernels(kernels: Sequence[ir.KernelDef]) -> list[ir.KernelDef]:
    """Kernels that are compiled."""
    return [kernel for kernel in kernels if not isinstance(kernel, ir.MultiKernel | ir.OperatorKernel)]


def _measured(multis: Sequence[ir.MultiKernel]) -> frozenset[str]:
    """The kernels among which one is chosen by measurement."""
    return frozenset(v.kernel for m in multis if m.choice is ir.Choice.MEASURE for v in m.variants)


def _has_candidates(kernel: ir.TritonKernel) -> bool:
    return len(kernel.configs) > 1 or bool(kernel.derive)


@dataclass(frozen=True, slots=True)
class _Carrying:
    """A runtime with the binaries of an artifact."""

    runtime: TritonRuntime
    carried: tuple[ir.KernelBinary, ...]
    kind: str = field(default="triton", init=False)

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        """See `TritonRuntime.load_all`."""
        return self.load_all([kernel], target)[kernel.name]

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        """See `TritonRuntime.load_all`."""
        return self.runtime.load_all(kernels, target, self.carried)


def _by_name(kernels: Sequence[ir.KernelDef]) -> dict[str, ir.TritonKernel]:
    by_name: dict[str, ir.TritonKernel] = {}
    for kernel in kernels:
        if not isinstance(kernel, ir.TritonKernel):
            raise KernelError("TR101", f"kernel '{kernel.name}' is of kind '{kernel.kind}', not 'triton'")
        if by_name.setdefault(kernel.name, kernel) != kernel:
            raise KernelError("TR101", f"two different kernels are named '{kernel.name}'")
        if not kernel.configs:
            raise KernelError("TR101", f"kernel '{kernel.name}' has no config")
    return by_name


def _driver(target: ir.Target, folder: Path, world: _World) -> Driver:
    """The driver of a target's device."""
    match target.device.type:
        case "cuda":
            return world.cuda
        case "cpu":
            # imported on demand, because it imports Triton
            from triton_runtime.interp import InterpreterDriver

            return InterpreterDriver(folder=folder)
        case other:
            raise LaunchError(
                "TR305", f"no driver launches Triton kernels on '{other}'", "pass one as TritonOptions.driver"
            )


KERNEL_RUNTIME = TritonRuntime()
"""The entry point `wrapper_ir.kernel_runtimes: triton`, with default options."""
