"""The memo of a program: tables by name, effects, and the results of analyses.

An analysis is a function of the memo, `called_operators(analyses)`, or of a function and the memo,
`analyse_liveness(function, analyses)`; one with options is a frozen dataclass that can be called. `get` and `get_for` run
it once. Programs are immutable, so results stay valid; another program has its own memo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import Aliasing, analyse_aliasing, summarise
from wrapper_ir.errors import SchemaError

T = TypeVar("T")


class Analyses:
    """What is known about one program. Passes, verifier and emitters take the memo of their program and hand it on.

    In the tables by name, the first of several definitions of one name wins; the verifier reports the second.
    """

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        # Any: each analysis has its own type of result
        self._found: dict[Callable[[Analyses], Any], Any] = {}
        self._found_for: dict[
            tuple[Callable[[ir.Function, Analyses], Any], int], tuple[Any, ir.Function]
        ] = {}
        """By the identity of a function, which is kept alive."""
        self._summaries: dict[str, ir.FunctionSummary] = {}

    @classmethod
    def of(cls, program: ir.Program, known: Analyses | None = None) -> Analyses:
        """`known` where it is the memo of this very program, else a new one."""
        return known if known is not None and known.program is program else cls(program)

    def after(self, program: ir.Program) -> Analyses:
        """The memo of what a pass made of this program: this one where it changed nothing."""
        return Analyses.of(program, self)

    def get(self, analysis: Callable[[Analyses], T]) -> T:
        """The result of an analysis of the program."""
        if analysis not in self._found:
            self._found[analysis] = analysis(self)
        found: T = self._found[analysis]
        return found

    def get_for(self, function: ir.Function, analysis: Callable[[ir.Function, Analyses], T]) -> T:
        """The result of an analysis of one function."""
        key = (analysis, id(function))
        if key not in self._found_for:
            self._found_for[key] = (analysis(function, self), function)
        found: T = self._found_for[key][0]
        return found

    def get_from_callees(self, function: ir.Function, analysis: Callable[[ir.Function, Analyses], T]) -> T:
        """As `get_for`, for an analysis that asks for the results of callees: these are worked out first."""

        def is_done(name: str) -> bool:
            return (analysis, id(self.functions[name])) in self._found_for

        if (analysis, id(function)) not in self._found_for:
            for name in ir.callees_first(function.name, self.functions, is_done):
                self.get_for(self.functions[name], analysis)
        return self.get_for(function, analysis)

    # --- tables

    @cached_property
    def kernels(self) -> dict[str, ir.KernelDef]:
        """Kernel definitions by name."""
        return {k.name: k for k in reversed(self.program.kernels)}

    @cached_property
    def kernel_access(self) -> dict[str, ir.KernelAccess]:
        """Which parameters each kernel reads and writes."""
        return {name: ir.KernelAccess.of(k.params) for name, k in self.kernels.items()}

    @cached_property
    def externs(self) -> dict[str, ir.ExternDef]:
        """Declared operators by name; those whose schema has no name are left out."""
        return {e.name: e for e in reversed(self.program.externs) if "(" in e.schema}

    @cached_property
    def extern_info(self) -> dict[str, ir.ExternInfo]:
        """Declared operators with parsed schemas; those that cannot be parsed are left out."""
        found = {}
        for name, extern in self.externs.items():
            try:
                found[name] = ir.ExternInfo.of(extern)
            except SchemaError:
                continue
        return found

    @cached_property
    def functions(self) -> dict[str, ir.Function]:
        """Functions by name."""
        return {f.name: f for f in reversed(self.program.functions)}

    @cached_property
    def constants(self) -> dict[str, ir.Constant]:
        """Constants by value name."""
        return {c.value.name: c for c in reversed(self.program.constants)}

    @cached_property
    def constant_values(self) -> frozenset[ir.Value]:
        """The values of all constants."""
        return frozenset(c.value for c in self.program.constants)

    @cached_property
    def shared_constants(self) -> Mapping[ir.Value, tuple[ir.Value, int]]:
        """Mutable constants that share storage: the one that stands for all of that storage (the one that begins first),
        and how many bytes after it each begins. What is never written needs no such thing."""
        groups: dict[str, list[ir.Constant]] = {}
        for constant in self.program.constants:
            if constant.storage and constant.mutable:
                groups.setdefault(constant.storage, []).append(constant)
        found: dict[ir.Value, tuple[ir.Value, int]] = {}
        for group in groups.values():
            first = min(group, key=lambda c: c.offset)
            found |= {c.value: (first.value, c.offset - first.offset) for c in group}
        return found

    @cached_property
    def constant_starts(self) -> Mapping[ir.Value, int]:
        """The bytes of `shared_constants`."""
        return {value: start for value, (_, start) in self.shared_constants.items()}

    @cached_property
    def symbols(self) -> dict[str, ir.SymbolDef]:
        """Declared symbols by name."""
        return {s.name: s for s in reversed(self.program.symbols)}

    # --- what ops and aliasing ask (`EffectContext`, `AliasingContext`)

    def access(self, kernel: str) -> ir.KernelAccess | None:
        """What the kernel of this name does through its parameters; None for an unknown one."""
        return self.kernel_access.get(kernel)

    def operator(self, target: str) -> ir.ExternInfo | None:
        """The declared operator of this name; None for an unknown one, or one whose schema cannot be read."""
        return self.extern_info.get(target)

    def effects(self, op: ir.OpBase) -> ir.Effects:
        """The effects of an op of this program."""
        return op.effects(self)

    def summary(self, function: str) -> ir.FunctionSummary:
        """What a call of the function of this name does; unknown and recursive ones count as doing nothing (the verifier
        refuses both)."""
        known = self._summaries.get(function)
        if known is not None:
            return known
        missing = ir.callees_first(function, self.functions, self._summaries.__contains__)
        self._summaries |= dict.fromkeys((function, *missing), ir.FunctionSummary())
        for name in missing:
            self._summaries[name] = summarise(self.functions[name], self)
        return self._summaries[function]

    def aliasing(self, function: ir.Function) -> Aliasing:
        """Which storage each value of the function may live in."""
        return self.get_for(function, analyse_aliasing)
