"""The `KernelRuntime` of kind "triton"."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from triton_runtime.binding import bind
from triton_runtime.compile.job import make_job
from triton_runtime.compile.service import CompileStats, compile_all
from triton_runtime.cuda import CudaDriver
from triton_runtime.errors import KernelError, LaunchError, TritonRuntimeError
from triton_runtime.folders import usable_folder
from triton_runtime.grids import make_grid
from triton_runtime.options import TritonOptions
from triton_runtime.protocols import Binary, Driver, Launchable
from triton_runtime.settings import Settings, read_settings
from triton_runtime.store import Store, StoreOptions
from triton_runtime.tuning import Tuning
from wrapper_ir.kernels import KernelDef, MultiKernel, TritonKernel
from wrapper_ir.program import Target
from wrapper_ir.protocols import LoadedKernel

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

    def load_all(self, kernels: Sequence[KernelDef], target: Target) -> dict[str, LoadedKernel]:
        """Loads kernels, by name; what no store has is compiled, in parallel.

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
        loader = _Loader(self, target, folder, settings, driver)
        tuned = [k for k in plain.values() if len(k.configs) > 1] if self.options.tune is not None else []
        loaded: dict[str, LoadedKernel] = loader.load([k for k in plain.values() if k not in tuned])
        if tuned or multis:
            tuning = Tuning(self.options, self._world_of(settings).store, target.device, loader.load_each)
            loaded |= {kernel.name: tuning.tuned(kernel) for kernel in tuned}
            loaded |= {kernel.name: tuning.multi(kernel, plain, loaded) for kernel in multis}
        return loaded

    def compile(self, kernels: Sequence[KernelDef], target: Target) -> dict[str, Binary]:
        """The binaries of kernels, by name, for a device that need not be there."""
        settings = self.settings or read_settings()
        folder = usable_folder(settings, "triton")
        launchables = [self.launchable(kernel) for kernel in _by_name(kernels).values()]
        binaries = self._compile(launchables, target, folder, settings)
        return {one.kernel.name: binary for one, binary in zip(launchables, binaries, strict=True)}

    def launchable(self, kernel: TritonKernel) -> Launchable:
        """A kernel with its config, arguments and grid, as drivers get it; not compiled."""
        config = self.options.choose(kernel)
        return Launchable(
            kernel=kernel, config=config, binding=bind(kernel, config), grid=make_grid(kernel, config)
        )

    def _compile(
        self, launchables: Sequence[Launchable], target: Target, folder: Path, settings: Settings
    ) -> list[Binary]:
        jobs = [make_job(one.kernel, one.config, target, str(folder / "sources")) for one in launchables]
        return compile_all(
            jobs,
            self.options.store or self._world_of(settings).store,
            self.options.executor,
            max_workers=settings.jobs,
            timeout=self.options.timeout,
            stats=self.stats,
        )

    def binaries(
        self, launchables: Sequence[Launchable], target: Target, folder: Path, settings: Settings
    ) -> list[Launchable]:
        """The same, with binaries."""
        binaries = self._compile(launchables, target, folder, settings)
        return [replace(one, binary=binary) for one, binary in zip(launchables, binaries, strict=True)]

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

    def load(self, kernels: Sequence[TritonKernel]) -> dict[str, LoadedKernel]:
        """All of them, or the first error."""
        launchables = [self.runtime.launchable(kernel) for kernel in kernels]
        if self.driver.needs_binary:
            launchables = self.runtime.binaries(launchables, self.target, self.folder, self.settings)
        return {one.kernel.name: self.driver.load(one, self.target.device) for one in launchables}

    def load_each(self, kernels: Sequence[TritonKernel]) -> list[LoadedKernel | Exception]:
        """Each of them, or why not; compiled at once where all can be."""
        try:
            if self.driver.needs_binary:
                launchables = [self.runtime.launchable(kernel) for kernel in kernels]
                self.runtime.binaries(launchables, self.target, self.folder, self.settings)
        except TritonRuntimeError:
            pass  # those that can be compiled are in the store now; below, each has its own error
        found: list[LoadedKernel | Exception] = []
        for kernel in kernels:
            try:
                found += self.load([kernel]).values()
            except TritonRuntimeError as error:
                found.append(error)
        return found


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
