"""The `KernelRuntime` of kind "triton"."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from triton_runtime.binding import bind
from triton_runtime.compile.ahead import CarriedStore, Compile, compile_ahead, count_passed_over
from triton_runtime.compile.job import CompileJob, make_job
from triton_runtime.compile.service import CompileStats, compile_all
from triton_runtime.cuda import CudaDriver
from triton_runtime.errors import KernelError, LaunchError, TritonRuntimeError
from triton_runtime.folders import usable_folder
from triton_runtime.grids import make_grid
from triton_runtime.options import TritonOptions
from triton_runtime.protocols import Binary, ByteStore, Driver, Launchable
from triton_runtime.settings import Settings, read_settings
from triton_runtime.store import Store, StoreOptions
from triton_runtime.tuning import Tuning
from wrapper_ir.kernels import KernelBinary, KernelDef, MultiKernel, TritonConfig, TritonKernel
from wrapper_ir.program import Target
from wrapper_ir.protocols import KernelRuntime, LoadedKernel

__all__ = ["TritonRuntime"]


@dataclass(frozen=True, slots=True)
class _World:
    """The store on disk, and the driver of CUDA devices, which opens nothing before it is used."""

    settings: Settings
    store: Store
    cuda: CudaDriver


@dataclass(slots=True, kw_only=True)
class TritonRuntime:
    """Compiles, caches and loads Triton kernels.

    Kernels of programs for `cuda` run on that device; those of programs for `cpu` in Triton's interpreter. `settings`:
    None reads the environment at every load. `stats` counts what became of the kernels that were asked for.
    """

    options: TritonOptions = field(default_factory=TritonOptions)
    settings: Settings | None = None
    kind: str = field(default="triton", init=False)
    stats: CompileStats = field(default_factory=CompileStats, init=False)
    _world: _World | None = field(default=None, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def load(self, kernel: KernelDef, target: Target) -> LoadedKernel:
        """Loads one kernel; see `load_all`."""
        return self.load_all([kernel], target)[kernel.name]

    def load_all(
        self, kernels: Sequence[KernelDef], target: Target, binaries: Sequence[KernelBinary] = ()
    ) -> dict[str, LoadedKernel]:
        """Loads kernels, by name; what neither `binaries` nor a store has is compiled, in parallel.

        A loaded kernel takes the arguments of its parameters, then the numbers of its grid, and returns None.
        Raises KernelError, CompileError, or LaunchError TR305 for a device that no driver is for.
        """
        if not kernels:
            return {}
        settings = self.settings or read_settings()
        folder = usable_folder(settings, "triton")
        driver = self.options.driver or _driver(target, folder, self._world_of(settings))
        multis = [kernel for kernel in kernels if isinstance(kernel, MultiKernel)]
        plain = _by_name([kernel for kernel in kernels if not isinstance(kernel, MultiKernel)])
        loader = _Loader(self, target, folder, settings, driver, tuple(binaries))
        tuned = [k for k in plain.values() if len(k.configs) > 1] if self.options.tune is not None else []
        loaded: dict[str, LoadedKernel] = loader.load([k for k in plain.values() if k not in tuned])
        if tuned or multis:
            tuning = Tuning(self.options, self._world_of(settings).store, target.device, loader.load_each)
            loaded |= {kernel.name: tuning.tuned(kernel) for kernel in tuned}
            loaded |= {kernel.name: tuning.multi(kernel, plain, loaded) for kernel in multis}
        return loaded

    def compile(self, kernels: Sequence[KernelDef], target: Target) -> dict[str, Binary]:
        """The binaries of kernels, by name, for a device that need not be there."""
        chosen = [(kernel, self.options.choose(kernel)) for kernel in _by_name(kernels).values()]
        jobs, compile = self._compiling(chosen, target)
        made = compile([job for _, job in jobs])
        return {kernel.name: binary for (kernel, _), binary in zip(jobs, made, strict=True)}

    def compile_ahead(
        self, kernels: Sequence[KernelDef], target: Target, candidates: bool
    ) -> tuple[KernelBinary, ...]:
        """See `wrapper_ir.protocols.AheadCompiler`; candidates that the compiler refuses are left out. Raises KernelError,
        CompileError."""
        jobs = [
            (kernel, config)
            for kernel in _by_name([k for k in kernels if not isinstance(k, MultiKernel)]).values()
            for config in (kernel.configs if candidates else (self.options.choose(kernel),))
        ]
        return tuple(compile_ahead(*self._compiling(jobs, target)))

    def with_binaries(self, binaries: Sequence[KernelBinary]) -> KernelRuntime:
        """See `wrapper_ir.protocols.AheadCompiler`; statistics are this runtime's."""
        return _Carrying(self, tuple(binaries))

    def launchable(self, kernel: TritonKernel) -> Launchable:
        """A kernel with its config, arguments and grid, as drivers get it; not compiled."""
        config = self.options.choose(kernel)
        return Launchable(
            kernel=kernel, config=config, binding=bind(kernel, config), grid=make_grid(kernel, config)
        )

    def _compiling(
        self, chosen: Sequence[tuple[TritonKernel, TritonConfig]], target: Target
    ) -> tuple[list[tuple[TritonKernel, CompileJob]], Compile]:
        """Jobs for kernels with configs, and what compiles such."""
        settings = self.settings or read_settings()
        folder = str(usable_folder(settings, "triton") / "sources")
        jobs = [(kernel, make_job(kernel, config, target, folder)) for kernel, config in chosen]
        return jobs, lambda given: self._compile(given, settings)

    def _compile(
        self, jobs: Sequence[CompileJob], settings: Settings, carried: Sequence[KernelBinary] = ()
    ) -> list[Binary]:
        store: ByteStore = self.options.store or self._world_of(settings).store
        if carried:
            store = CarriedStore({b.key: b.data for b in carried}, store, self.stats)
        return compile_all(
            jobs,
            store,
            self.options.executor,
            max_workers=settings.jobs,
            timeout=self.options.timeout,
            stats=self.stats,
        )

    def binaries(
        self,
        launchables: Sequence[Launchable],
        target: Target,
        folder: Path,
        settings: Settings,
        carried: Sequence[KernelBinary] = (),
    ) -> list[Launchable]:
        """The same, with binaries."""
        sources = str(folder / "sources")
        jobs = [(one.kernel, make_job(one.kernel, one.config, target, sources)) for one in launchables]
        count_passed_over(jobs, carried, self.stats)
        made = self._compile([job for _, job in jobs], settings, carried)
        return [replace(one, binary=binary) for one, binary in zip(launchables, made, strict=True)]

    def _world_of(self, settings: Settings) -> _World:
        """What is kept from load to load; made anew where the environment has changed."""
        with self._lock:
            if self._world is None or self._world.settings != settings:
                self._world = _World(settings, _store(settings), CudaDriver(settings=settings))
            return self._world


@dataclass(frozen=True, slots=True)
class _Loader:
    """Loads kernels for one target."""

    runtime: TritonRuntime
    target: Target
    folder: Path
    settings: Settings
    driver: Driver
    carried: tuple[KernelBinary, ...]

    def load(self, kernels: Sequence[TritonKernel]) -> dict[str, LoadedKernel]:
        """All of them, or the first error."""
        launchables = [self.runtime.launchable(kernel) for kernel in kernels]
        if self.driver.needs_binary:
            launchables = self._compiled(launchables)
        return {one.kernel.name: self.driver.load(one, self.target.device) for one in launchables}

    def _compiled(self, launchables: Sequence[Launchable]) -> list[Launchable]:
        return self.runtime.binaries(launchables, self.target, self.folder, self.settings, self.carried)

    def load_each(self, kernels: Sequence[TritonKernel]) -> list[LoadedKernel | Exception]:
        """Each of them, or why not; compiled at once where all can be."""
        try:
            if self.driver.needs_binary:
                launchables = [self.runtime.launchable(kernel) for kernel in kernels]
                self._compiled(launchables)
        except TritonRuntimeError:
            pass  # those that can be compiled are in the store now; below, each has its own error
        found: list[LoadedKernel | Exception] = []
        for kernel in kernels:
            try:
                found += self.load([kernel]).values()
            except TritonRuntimeError as error:
                found.append(error)
        return found


@dataclass(frozen=True, slots=True)
class _Carrying:
    """A runtime with what an artifact carries."""

    runtime: TritonRuntime
    carried: tuple[KernelBinary, ...]
    kind: str = field(default="triton", init=False)

    def load(self, kernel: KernelDef, target: Target) -> LoadedKernel:
        """See `TritonRuntime.load_all`."""
        return self.load_all([kernel], target)[kernel.name]

    def load_all(self, kernels: Sequence[KernelDef], target: Target) -> dict[str, LoadedKernel]:
        """See `TritonRuntime.load_all`."""
        return self.runtime.load_all(kernels, target, self.carried)


def _store(settings: Settings) -> Store:
    return Store(
        StoreOptions(
            folder=settings.cache_dir / "triton" / "store",
            fallback=settings.fallback_dir / "triton-store",
            limit_bytes=settings.limit_bytes,
            shared=settings.shared,
        )
    )


def _by_name(kernels: Sequence[KernelDef]) -> dict[str, TritonKernel]:
    known: dict[str, TritonKernel] = {}
    for kernel in kernels:
        if not isinstance(kernel, TritonKernel):
            raise KernelError("TR101", f"kernel '{kernel.name}' is of kind '{kernel.kind}', not 'triton'")
        if known.setdefault(kernel.name, kernel) != kernel:
            raise KernelError("TR101", f"two different kernels are named '{kernel.name}'")
        if not kernel.configs:
            raise KernelError("TR101", f"kernel '{kernel.name}' has no config")
    return known


def _driver(target: Target, folder: Path, world: _World) -> Driver:
    """The driver of a target's device."""
    match target.device.type:
        case "cuda":
            return world.cuda
        case "cpu":
            # imported when it is wanted, because it brings Triton
            from triton_runtime.interp import InterpreterDriver

            return InterpreterDriver(folder=folder / "sources")
        case other:
            raise LaunchError(
                "TR305",
                f"no driver launches Triton kernels on '{other}'",
                "pass one as TritonOptions.driver",
            )
