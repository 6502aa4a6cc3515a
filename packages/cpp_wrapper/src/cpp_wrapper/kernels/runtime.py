"""The `KernelRuntime` of kind "cpp"."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from cpp_wrapper._compat import torch_include_dirs
from cpp_wrapper.errors import CacheError, CompileError, KernelError
from cpp_wrapper.kernels.binding import Launcher, bind, load_launcher
from cpp_wrapper.kernels.build import Builder
from cpp_wrapper.kernels.headers import changed_headers, header_hashes
from cpp_wrapper.kernels.isa import choose_source, host_features, isa_build_args
from cpp_wrapper.kernels.libraries import BuiltKernel, Libraries
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.source import Member, check_kernel
from cpp_wrapper.kernels.toolchain import Toolchain, find_toolchain, kernel_recipe
from cpp_wrapper.settings import Settings, read_settings
from wrapper_ir import ir
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir_runtime.cache import open_cache


@dataclass(slots=True, kw_only=True)
class CppKernelRuntime:
    """Compiles, caches and loads C++ kernels. Its only state is the cache on disk.

    `settings`: None reads the environment at every load.
    """

    options: CppOptions = field(default_factory=CppOptions)
    settings: Settings | None = None
    kind: str = field(default="cpp", init=False)

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        """Loads one kernel; see `load_all`."""
        return self.load_all([kernel], target)[kernel.name]

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        """Loads kernels by name, and compiles those that are not in the cache in few parallel runs.

        `target` is ignored: host kernels run on the host for any device, and each kernel names its
        instruction sets. If a kernel has several sources, the first that the host can run is used
        (`CppKernel.sources`).

        A loaded kernel accepts its arguments by position and returns None. It raises LaunchError (also a
        TypeError) for arguments that do not fit. It holds the GIL: the kernels are not reentrant.

        Raises KernelError, IsaError, CompileError, CacheError or StoreError, checked in this order.
        """
        if not kernels:
            return {}
        features = host_features()
        definitions = [choose_source(kernel, features) for kernel in _by_name(kernels).values()]
        for kernel in definitions:
            check_kernel(kernel)
        hashes = header_hashes(definitions, torch_include_dirs())
        settings = self.settings or read_settings()
        toolchain = find_toolchain(settings.compiler)
        by_isa: dict[tuple[str, ...], list[ir.CppKernel]] = {}
        for kernel in definitions:
            by_isa.setdefault(isa_build_args(kernel.name, kernel.isa), []).append(kernel)
        loaded: dict[str, LoadedKernel] = {}
        with ThreadPoolExecutor(1) as pool:
            # With a cold cache, the launcher is compiled in parallel with the kernels.
            launcher = pool.submit(load_launcher, toolchain, open_cache(settings.cache), self.options)
            for isa_args, group in by_isa.items():
                builder = self._builder(toolchain, isa_args, settings)
                loaded |= _load_group(builder, launcher, group, hashes)
        return {kernel.name: loaded[kernel.name] for kernel in kernels}

    def storage_check(self) -> Callable[..., bool]:
        """See `wrapper_ir.plugins.protocols.StorageChecker`.

        The launcher has the check, and is built if necessary.

        Raises CompileError, CacheError, KernelError or StoreError.
        """
        settings = self.settings or read_settings()
        toolchain = find_toolchain(settings.compiler)
        return load_launcher(toolchain, open_cache(settings.cache), self.options).holds

    def _builder(self, toolchain: Toolchain, isa_args: tuple[str, ...], settings: Settings) -> Builder:
        recipe = kernel_recipe(toolchain, isa_args, self.options)
        libraries = Libraries(open_cache(settings.cache), recipe.fingerprint)
        return Builder(recipe=recipe, libraries=libraries, options=self.options, jobs=settings.jobs)


def _by_name(kernels: Sequence[ir.KernelDef]) -> dict[str, ir.CppKernel]:
    by_name: dict[str, ir.CppKernel] = {}
    for kernel in kernels:
        if not isinstance(kernel, ir.CppKernel):
            raise KernelError("CPP401", f"kernel '{kernel.name}' is of kind '{kernel.kind}', not 'cpp'")
        if by_name.setdefault(kernel.name, kernel) != kernel:
            raise KernelError("CPP401", f"two different kernels are named '{kernel.name}'")
    return by_name


def _load_group(
    builder: Builder, pending: Future[Launcher], kernels: Sequence[ir.CppKernel], hashes: dict[str, str]
) -> dict[str, LoadedKernel]:
    """Loads kernels with the same recipe. A library that cannot be opened is built once more."""
    members = [Member(_key(kernel, builder, hashes), kernel) for kernel in kernels]
    try:
        binaries = builder.ensure(members)
    except CompileError as error:
        changed = dict.fromkeys(filter(None, (changed_headers(kernel, hashes) for kernel in kernels)))
        if error.code != "CPP102" or not changed:
            raise
        headers = ", ".join(changed)
        hint = f"the kernels were written for {headers}: capture the model again with the installed headers"
        raise CompileError(error.code, error.message, hint) from error
    launcher = pending.result()
    loaded, broken = _bind_all(builder, launcher, members, binaries)
    if broken:
        again, still = _bind_all(builder, launcher, list(broken), builder.rebuild(list(broken)))
        if still:
            member, cause = next(iter(still.items()))
            raise CacheError(
                "CPP302", f"kernel '{member.kernel.name}' was built but its library cannot be opened: {cause}"
            ) from cause
        loaded |= again
    return loaded


def _bind_all(
    builder: Builder, launcher: Launcher, members: Sequence[Member], binaries: dict[str, BuiltKernel]
) -> tuple[dict[str, LoadedKernel], dict[Member, OSError]]:
    loaded: dict[str, LoadedKernel] = {}
    broken: dict[Member, OSError] = {}
    for member in members:
        try:
            loaded[member.kernel.name] = bind(launcher, member.kernel, binaries[member.key], builder.options)
        except OSError as problem:
            broken[member] = problem
    return loaded, broken


def _key(kernel: ir.CppKernel, builder: Builder, hashes: dict[str, str]) -> str:
    """Returns the SHA-256 (hex) of the definition without its name, the recipe, and the installed headers."""
    headers = sorted((r.name, hashes[r.name]) for r in kernel.requires)
    parts = (content_hash(kernel), builder.recipe.fingerprint, repr(headers))
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


KERNEL_RUNTIME = CppKernelRuntime()
"""The entry point `wrapper_ir.kernel_runtimes: cpp`, with default options."""
