"""Symbols of a compilation: their state is part of the key, new guards are part of the entry.

Inductor adds guards while it compiles, if a decision depends on a size. Loading a program from the cache
skips that, so the guards are stored with the program and added again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import sympy

from inductor_frontend.cache.sizes import Json, decode_size
from inductor_frontend.torch_patches.symbol_facts import symbol_hint, symbol_range
from wrapper_ir_runtime.cache import DamagedEntry

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv


class SymbolState:
    """The symbols of one compilation. `shape_env` is torch's ShapeEnv; None if all sizes are
    constant."""

    def __init__(self, shape_env: ShapeEnv | None) -> None:
        self._env = shape_env
        self._before = 0 if shape_env is None else len(shape_env.guards)
        self._by_name = {} if shape_env is None else {s.name: s for s in shape_env.var_to_range}

    def lines(self) -> Iterator[str]:
        """Yields all facts about the symbols, as lines of a key."""
        env = self._env
        if env is None:
            return
        yield f"settings {env.settings}"
        for symbol in sorted(env.var_to_range, key=str):
            kinds = f"{symbol in env.size_like} {symbol.assumptions0.get('integer')}"
            lower, upper = symbol_range(env, symbol)
            yield f"{symbol} in [{lower}, {upper}] hint {symbol_hint(env, symbol)} {kinds}"
        tables = (env.replacements, env.unbacked_renamings, env.var_to_hint_override)
        for name, table in zip(("is", "was", "hinted"), tables):
            for key in sorted(table, key=str):
                yield f"{key} {name} {table[key]}"
        for guard in env.guards:
            yield f"guard {guard.expr}"
        for symbol, asserts in env.deferred_runtime_asserts.items():
            for deferred in asserts:
                yield f"assert {symbol} {deferred.expr}"
        yield f"divisible {sorted(map(str, env.divisible))}"

    def new_guards(self) -> tuple[sympy.Basic, ...]:
        """Returns the guards that were added since the creation of this object."""
        return () if self._env is None else tuple(g.expr for g in self._env.guards[self._before :])

    def read(self, data: Json) -> sympy.Basic:
        """Decodes a size expression, in terms of these symbols; raises DamagedEntry."""
        return decode_size(data, self._by_name)

    def read_guards(self, items: Sequence[Json]) -> tuple[sympy.Basic, ...]:
        """Decodes the guards of an entry. Raises DamagedEntry if one is not satisfied.

        The guards of an intact entry are satisfied: its key has the same symbols with the same values.
        """
        guards = tuple(map(self.read, items))
        for guard in guards:
            assert self._env is not None, "guards have symbols"
            if guard.xreplace(self._env.backed_var_to_val) is not sympy.true:
                raise DamagedEntry(f"guard {guard} is not satisfied")
        return guards

    def add(self, guards: Sequence[sympy.Basic]) -> None:
        """Adds guards to the ShapeEnv, as the compilation did."""
        for guard in guards:
            assert self._env is not None, "guards have symbols"
            self._env.evaluate_expr(guard)


class ForeignSymbols(SymbolState):
    """Symbols of a compilation in another process, known by name only; the caller must satisfy the guards."""

    def __init__(self) -> None:
        super().__init__(None)

    def read(self, data: Json) -> sympy.Basic:
        """Decodes a size expression, with new symbols of the same names; raises DamagedEntry."""
        return decode_size(data, _AnySymbol())

    def read_guards(self, items: Sequence[Json]) -> tuple[sympy.Basic, ...]:
        """Decodes the guards of an entry without checking them. Raises DamagedEntry."""
        return tuple(map(self.read, items))

    def add(self, guards: Sequence[sympy.Basic]) -> None:
        """Does nothing: the caller must satisfy the guards."""


class _AnySymbol(Mapping[str, sympy.Symbol]):
    """A mapping with a symbol for every name."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __getitem__(self, name: str) -> sympy.Symbol:
        return sympy.Symbol(name, integer=True)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
