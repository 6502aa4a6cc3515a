"""Finds kernels in the cache and builds those that are not there, together with other processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cpp_wrapper.errors import CompileError
from cpp_wrapper.kernels.compile import Unit, compile_library, precompile_header
from cpp_wrapper.kernels.location import Location
from cpp_wrapper.kernels.options import CppOptions
from cpp_wrapper.kernels.source import Member, groups, leading_includes, shared_unit, single_unit
from cpp_wrapper.kernels.store import Content, Entry, Store, write_atomic
from cpp_wrapper.kernels.toolchain import Recipe

__all__ = ["Builder"]

_COMMON_INCLUDE = "#include <torch/csrc/inductor/cpp_prefix.h>"
_HEADER = "kernel_prefix.h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Builds kernels with one recipe into one cache."""

    recipe: Recipe
    location: Location
    options: CppOptions
    jobs: int

    def ensure(self, members: Sequence[Member]) -> dict[str, Entry]:
        """Entries for all members, by key; builds what is missing.

        Of the missing kernels this process builds those that no other is building, then looks for the others'
        again. Raises CompileError and CacheError.
        """
        wanted = {member.key: member for member in members}
        found: dict[str, Entry] = {}
        for store in self.location.readable():
            found |= store.find(wanted.keys() - found.keys())
        if found.keys() == wanted.keys():
            return found
        store = self.location.writable()
        while missing := wanted.keys() - found.keys():
            with store.lock_some(missing) as mine:
                found |= store.find(mine)
                found |= self._build(store, [wanted[key] for key in sorted(mine - found.keys())])
            if others := sorted(missing - mine):
                store.wait_for(others[0], self.options.timeout)
                found |= store.find(others)
        return found

    def rebuild(self, members: Sequence[Member]) -> dict[str, Entry]:
        """Forgets what the cache has for these members and builds them again."""
        self.location.writable().forget(member.key for member in members)
        return self.ensure(members)

    def _build(self, store: Store, members: list[Member]) -> dict[str, Entry]:
        """Builds kernels in shared units; those of a unit that the compiler refuses, each alone.

        What can be built is in the cache afterwards even where a CompileError is raised for something else.
        """
        if not members:
            return {}
        header = self._header(store)
        units = groups(members, self.jobs)
        built: dict[str, Entry] = {}
        with ThreadPoolExecutor(self.jobs) as pool:
            shared = list(pool.map(lambda unit: self._build_shared(store, unit, header), units))
            refused = [member for unit, entries in zip(units, shared) if entries is None for member in unit]
            alone = [pool.submit(self._build_alone, store, member) for member in refused]
        for entries in (*shared, *(future.result() for future in alone)):
            built |= entries or {}
        return built

    def _build_shared(self, store: Store, unit: list[Member], header: Path | None) -> dict[str, Entry] | None:
        """Builds one unit, with the precompiled header where its kernels read that; None: refused."""
        used = header if any(_COMMON_INCLUDE in leading_includes(m.kernel.source) for m in unit) else None
        if len(unit) == 1 and used is None:
            return None
        with store.workspace() as work:
            source = work / "kernels.cpp"
            source.write_text(shared_unit(unit) if len(unit) > 1 else single_unit(unit[0]))
            try:
                return self._compile(store, unit, source, used)
            except CompileError as error:
                if error.code != "CPP102":
                    raise
                if used is not None:
                    # It may be damaged, and costs little to make again.
                    _precompiled(used).unlink(missing_ok=True)
                return None

    def _build_alone(self, store: Store, member: Member) -> dict[str, Entry]:
        source = store.refused_path(member.key)
        write_atomic(source, single_unit(member))
        return self._compile(store, [member], source, None)

    def _compile(
        self, store: Store, unit: Sequence[Member], source: Path, header: Path | None
    ) -> dict[str, Entry]:
        names = ", ".join(f"'{member.kernel.name}'" for member in unit)
        what = f"kernel {names}" if len(unit) == 1 else f"kernels {names}"
        with store.workspace() as work:
            output = work / "kernels.so"
            run = Unit(what=what, source=source, output=output, header=header)
            compile_library(self.recipe, run, self.options.timeout)
            return store.publish(output, source, [Content(m.key, m.symbol, m.kernel.name) for m in unit])

    def _header(self, store: Store) -> Path | None:
        """The common header where it is precompiled; precompiles it once that pays."""
        header = store.header_folder() / _HEADER
        if _precompiled(header).exists():
            return header
        limit = self.options.precompile_after
        if limit is None or store.library_count() < limit:
            return None
        with store.try_lock("header") as mine, contextlib.suppress(CompileError), store.workspace() as work:
            if not mine:
                return None
            write_atomic(header, _COMMON_INCLUDE + "\n")
            output = work / "header.gch"
            precompile_header(self.recipe, header, output, self.options.timeout)
            os.replace(output, _precompiled(header))
            return header
        return None


def _precompiled(header: Path) -> Path:
    return header.with_name(header.name + ".gch")
