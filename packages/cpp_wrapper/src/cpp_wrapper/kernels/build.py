"""Finds kernels in the cache and builds missing ones, together with other processes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cpp_wrapper.errors import CompileError
from cpp_wrapper.kernels.compile import Unit, compile_library, precompile_header
from cpp_wrapper.kernels.libraries import HEADER, LIBRARY, SOURCE, BuiltKernel, Content, Libraries
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.source import Member, groups, leading_includes, shared_unit, single_unit
from cpp_wrapper.kernels.toolchain import Recipe
from wrapper_ir_runtime.cache import Entry

_COMMON_INCLUDE = "#include <torch/csrc/inductor/cpp_prefix.h>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Builds kernels with one recipe into one cache."""

    recipe: Recipe
    libraries: Libraries
    options: CppOptions
    jobs: int

    def ensure(self, members: Sequence[Member]) -> dict[str, BuiltKernel]:
        """Returns built kernels of all members by key; builds missing ones.

        This process builds the missing kernels that no other process is building, then looks for the rest
        again. Raises CompileError and StoreError.
        """
        requested = {member.key: member for member in members}
        kernels = self.libraries.find(requested)
        while missing := requested.keys() - kernels.keys():
            with self.libraries.alone_some(missing) as mine:
                kernels |= self.libraries.find(mine)
                kernels |= self._build([requested[key] for key in sorted(mine - kernels.keys())])
            if others := sorted(missing - mine):
                # Its builder releases the lock when it succeeds, fails or dies. After the timeout, build it
                # here.
                with self.libraries.alone(others[0], self.options.timeout):
                    kernels |= self.libraries.find(others)
                    if others[0] not in kernels:
                        kernels |= self._build([requested[others[0]]])
        return kernels

    def rebuild(self, members: Sequence[Member]) -> dict[str, BuiltKernel]:
        """Removes the members' cache entries and builds the members again."""
        self.libraries.forget(member.key for member in members)
        return self.ensure(members)

    def _build(self, members: list[Member]) -> dict[str, BuiltKernel]:
        """Builds kernels in shared units; if the compiler refuses a unit, builds each of its kernels alone.

        Kernels that can be built are in the cache even if a CompileError is raised for another one.
        """
        if not members:
            return {}
        header = common_header(self.recipe, self.libraries, self.options)
        units = groups(members, self.jobs)
        binaries: dict[str, BuiltKernel] = {}
        with ThreadPoolExecutor(self.jobs) as pool:
            shared = list(pool.map(lambda unit: self._build_shared(unit, header), units))
            refused = [member for unit, kernels in zip(units, shared) if kernels is None for member in unit]
            alone = [pool.submit(self._build_alone, member) for member in refused]
        self.libraries.count(sum(kernels is not None for kernels in shared) + len(alone))
        for kernels in (*shared, *(future.result() for future in alone)):
            binaries |= kernels or {}
        return binaries

    def _build_shared(self, unit: list[Member], header: Entry | None) -> dict[str, BuiltKernel] | None:
        """Builds one unit, with the precompiled header if its kernels include it.

        Returns None if it is refused.
        """
        include = header if any(reads_common_header(m.kernel.source) for m in unit) else None
        if len(unit) == 1 and include is None:
            return None
        text = shared_unit(unit) if len(unit) > 1 else single_unit(unit[0])
        try:
            return self._compile(unit, text, None, None if include is None else include.folder / HEADER)
        except CompileError as error:
            if error.code != "CPP102":
                raise
            if include is not None:
                # This compiler may reject the header, and building it again costs little.
                self.libraries.forget_header()
            return None

    def _build_alone(self, member: Member) -> dict[str, BuiltKernel]:
        text = single_unit(member)
        with self.libraries.refused_source(text) as entry:
            binaries = self._compile([member], text, entry.folder / SOURCE, None)
        self.libraries.accept(text)
        return binaries

    def _compile(
        self, unit: Sequence[Member], text: str, source: Path | None, header: Path | None
    ) -> dict[str, BuiltKernel]:
        """Compiles `text`, from the file `source` if messages are to name one."""
        names = ", ".join(f"'{member.kernel.name}'" for member in unit)
        what = f"kernel {names}" if len(unit) == 1 else f"kernels {names}"

        def compile_into(folder: Path) -> None:
            (folder / SOURCE).write_text(text, encoding="utf-8")
            run = Unit(what=what, source=source or folder / SOURCE, output=folder / LIBRARY, header=header)
            compile_library(self.recipe, run, self.options.timeout)

        return self.libraries.add([Content(m.key, m.symbol, m.kernel.name) for m in unit], compile_into)


def common_header(recipe: Recipe, libraries: Libraries, options: CppOptions) -> Entry | None:
    """Returns the precompiled header that all kernels include, or None; precompiles it once that pays."""
    limit = options.precompile_after
    pays = limit is not None and libraries.count() >= limit

    def precompile(folder: Path) -> None:
        header = folder / HEADER
        header.write_text(_COMMON_INCLUDE + "\n", encoding="utf-8")
        precompile_header(recipe, header, header.with_name(header.name + ".gch"), options.timeout)

    with contextlib.suppress(CompileError):
        return libraries.header(precompile if pays else None)
    return None


def reads_common_header(source: str) -> bool:
    """Returns whether a kernel's source begins with the common header."""
    return _COMMON_INCLUDE in leading_includes(source)
