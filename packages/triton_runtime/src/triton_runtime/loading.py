"""Loads kernels for one target, compiling them if the driver needs that, as a whole or each with its own
result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from triton_runtime.binding import bind
from triton_runtime.compile.ahead import count_passed_over, kernel_binary
from triton_runtime.compile.early import EarlyCompilations
from triton_runtime.compile.job import CompileJob, make_job
from triton_runtime.compile.service import CompileStats, Workers, compile_each
from triton_runtime.compile.target import capability
from triton_runtime.errors import CompileError, KernelError, TritonRuntimeError, without_errors
from triton_runtime.grids import make_grid
from triton_runtime.protocols import Binary, ByteStore, Driver, Launchable
from triton_runtime.tune.candidates import config_key
from triton_runtime.tune.derive import MULTIPROCESSORS, Multiprocessors, scaled
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel


def launchable(kernel: ir.TritonKernel, config: ir.TritonConfig) -> Launchable:
    """A kernel with one of its configs, its arguments and its grid, for drivers; not compiled."""
    return Launchable(
        kernel=kernel, config=config, binding=bind(kernel, config), grid=make_grid(kernel, config)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """Compiles for one target; `folder` stores sources.

    Kernels in the artifact (`carried`) are not compiled, nor those started `early`. A kernel that the
    compiler refused is not retried in this process.
    """

    target: ir.Target
    store: ByteStore
    folder: Path
    stats: CompileStats
    workers: Workers
    refused: dict[str, CompileError] = field(default_factory=dict)
    carried: tuple[ir.KernelBinary, ...] = ()
    early: EarlyCompilations = field(default_factory=EarlyCompilations)

    def begin(self, launchables: Sequence[Launchable]) -> None:
        """Starts compiling them in the background."""
        self.early.begin(self.jobs(launchables), self._compiled)

    def jobs(self, launchables: Sequence[Launchable]) -> list[CompileJob]:
        """Describes their compilations."""
        return [make_job(one.kernel, one.config, self.target, str(self.folder)) for one in launchables]

    def each(self, launchables: Sequence[Launchable]) -> list[ir.KernelBinary | Exception]:
        """Returns for each the binary for its driver, or the error."""
        jobs = self.jobs(launchables)
        keys = [job.key for job in jobs]
        carried = {binary.key: binary for binary in self.carried}
        if carried:
            kernels = [one.kernel for one in launchables]
            count_passed_over(list(zip(kernels, jobs, strict=True)), self.carried, self.stats)
        here = set(keys) & carried.keys()
        self.stats.carried += len(here)
        self.stats.reused += len(here)
        results = iter(self._made([job for job, key in zip(jobs, keys, strict=True) if key not in here]))
        return [
            carried[key] if key in here else _bound(one, key, next(results))
            for one, key in zip(launchables, keys, strict=True)
        ]

    def compiled(self, launchables: Sequence[Launchable]) -> list[Binary | Exception]:
        """Returns for each the compiler's result, or the error."""
        return self._made(self.jobs(launchables))

    def _made(self, jobs: Sequence[CompileJob]) -> list[Binary | Exception]:
        earlier: dict[str, Binary | Exception] = {
            **self.early.take([job.key for job in jobs]),
            **self.refused,
        }
        compiled = iter(self._compiled([job for job in jobs if job.key not in earlier]))
        # errors of this call are recorded below: equal jobs have one result each
        results = [earlier[job.key] if job.key in earlier else next(compiled) for job in jobs]
        for job, one in zip(jobs, results, strict=True):
            if isinstance(one, CompileError) and one.code == "TR201":
                self.refused[job.key] = one
        return results

    def _compiled(self, jobs: Sequence[CompileJob]) -> list[Binary | Exception]:
        return compile_each(jobs, self.store, self.workers, self.stats)


def _bound(one: Launchable, key: str, result: Binary | Exception) -> ir.KernelBinary | Exception:
    try:
        return result if isinstance(result, Exception) else kernel_binary(one, key, result)
    except KernelError as error:
        return error


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads kernels with a driver."""

    compiler: Compiler
    driver: Driver

    def load(self, launchables: Sequence[Launchable]) -> list[LoadedKernel]:
        """Loads all of them, or raises the first error."""
        device = self.compiler.target.device
        return [self.driver.load(one, device) for one in without_errors(self._ready(launchables))]

    def load_each(self, kernels: Sequence[ir.TritonKernel]) -> list[LoadedKernel | Exception]:
        """Loads each of them with its first config; returns the error of one that fails."""
        results: list[LoadedKernel | Exception] = []
        for one in self._ready([launchable(kernel, kernel.configs[0]) for kernel in kernels]):
            try:
                loaded = (
                    one if isinstance(one, Exception) else self.driver.load(one, self.compiler.target.device)
                )
            except TritonRuntimeError as error:
                loaded = error
            results.append(loaded)
        return results

    def derived(self, kernel: ir.TritonKernel) -> list[ir.TritonConfig]:
        """Configs with halved reduction blocks, if the registers of the listed ones call for them."""
        if not self.driver.needs_binary:
            return []
        target = self.compiler.target
        device = _multiprocessors(target)
        binaries = self.compiler.each([launchable(kernel, config) for config in kernel.configs])
        configs: dict[str, ir.TritonConfig] = {}
        for config, binary in zip(kernel.configs, binaries, strict=True):
            new = None if isinstance(binary, Exception) else scaled(kernel, config, binary.facts, device)
            if new is not None:
                configs[config_key(new)] = new
        listed = {config_key(config) for config in kernel.configs}
        return [config for key, config in configs.items() if key not in listed]

    def _ready(self, launchables: Sequence[Launchable]) -> list[Launchable | Exception]:
        if not self.driver.needs_binary:
            return [*launchables]
        binaries = self.compiler.each(launchables)
        return [
            b if isinstance(b, Exception) else replace(one, binary=b)
            for one, b in zip(launchables, binaries, strict=True)
        ]


class Loading(Mapping[str, LoadedKernel]):
    """Kernels that a dedicated thread loads. A lookup waits for it and raises its error."""

    def __init__(self, names: Sequence[str], load: Callable[[], Mapping[str, LoadedKernel]]) -> None:
        self._names = tuple(names)
        threads = ThreadPoolExecutor(1, thread_name_prefix="triton-load")
        self._loaded = threads.submit(load)
        threads.shutdown(wait=False)

    def done(self) -> bool:
        """True if a lookup would not wait."""
        return self._loaded.done()

    def __getitem__(self, name: str) -> LoadedKernel:
        return self._loaded.result()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _multiprocessors(target: ir.Target) -> Multiprocessors:
    """Multiprocessors of an available device, otherwise those of its architecture, or an A100's if it is
    unknown.
    """
    known_device = MULTIPROCESSORS.get(capability(target), MULTIPROCESSORS[80])
    import torch

    if not torch.cuda.is_available():
        return known_device
    count = torch.cuda.get_device_properties(target.device.index or 0).multi_processor_count
    return replace(known_device, count=count)
