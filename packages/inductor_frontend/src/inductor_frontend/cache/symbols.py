"""What a compilation learns and decides about sizes: the state of its symbols in the key, its new guards in the entry.

Inductor adds guards while it compiles (a size that a choice depended on). Whoever takes a compiled program from the
cache skips that, so the guards are kept beside the program and added again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy

from inductor_frontend.cache.sizes import Json, decode_size
from inductor_frontend.torch_patches.symbol_facts import symbol_hint, symbol_range
from wrapper_ir_runtime.cache import DamagedEntry


class SymbolState:
    """The symbols of one compilation. `shape_env` is torch's (untyped) ShapeEnv, or None where all sizes are fixed."""

    def __init__(self, shape_env: Any) -> None:
        self._env = shape_env
        self._before = 0 if shape_env is None else len(shape_env.guards)
        self._by_name = {} if shape_env is None else {s.name: s for s in shape_env.var_to_range}

    def lines(self) -> Iterator[str]:
        """Everything that is known of the symbols, as lines of a key."""
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
        """The guards added since this object was made."""
        return () if self._env is None else tuple(g.expr for g in self._env.guards[self._before :])

    def read(self, record: Json) -> sympy.Basic:
        """The size expression of a record, in terms of these symbols; raises DamagedEntry."""
        return decode_size(record, self._by_name)

    def read_guards(self, records: Sequence[Json]) -> tuple[sympy.Basic, ...]:
        """Guards of an entry. Raises DamagedEntry where one does not hold, which a sound entry excludes: the key has
        the same symbols with the same values."""
        guards = tuple(map(self.read, records))
        for guard in guards:
            if guard.xreplace(self._env.backed_var_to_val) is not sympy.true:
                raise DamagedEntry(f"guard {guard} does not hold")
        return guards

    def add(self, guards: Sequence[sympy.Basic]) -> None:
        """Adds guards, as compiling would have."""
        for guard in guards:
            self._env.evaluate_expr(guard)


class ForeignSymbols(SymbolState):
    """Symbols of a compilation in another process, of which only the names are known: whoever calls what was compiled there keeps
    to its guards."""

    def __init__(self) -> None:
        super().__init__(None)

    def read(self, record: Json) -> sympy.Basic:
        """The size expression of a record, in terms of symbols of its names; raises DamagedEntry."""
        return decode_size(record, _AnySymbol())

    def read_guards(self, records: Sequence[Json]) -> tuple[sympy.Basic, ...]:
        """The guards of an entry, which are not checked. Raises DamagedEntry."""
        return tuple(map(self.read, records))

    def add(self, guards: Sequence[sympy.Basic]) -> None:
        """Nothing."""


class _AnySymbol(Mapping[str, sympy.Symbol]):
    """A symbol for every name."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __getitem__(self, name: str) -> sympy.Symbol:
        return sympy.Symbol(name, integer=True)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
