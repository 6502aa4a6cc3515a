"""The memo of a program: tables by name, effects, and the results of analyses.

An analysis is a function of the memo, `called_operators(analyses)`, or of a function and the memo,
`analyse_liveness(function, analyses)`. An analysis with options is a callable frozen dataclass. `get` and
`get_for` run an analysis once. Programs are immutable, so results stay valid; each program has a separate
memo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

from wrapper_ir import ir
from wrapper_ir.analysis.aliasing import Aliasing, analyse_aliasing, summarise
from wrapper_ir.errors import SchemaError

T = TypeVar("T")


class Analyses:
    """Cached facts about one program. Passes, verifier and emitters accept the memo of their program and pass
    it on.

    If several definitions have one name, the tables by name contain the first; the verifier reports the
    second.
    """

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        # Any: each analysis has its own type of result
        self._results: dict[Callable[[Analyses], Any], Any] = {}
        self._function_results: dict[
            tuple[Callable[[ir.Function, Analyses], Any], int], tuple[Any, ir.Function]
        ] = {}
        """By the identity of a function, which the entry keeps alive."""
        self._summaries: dict[str, ir.FunctionSummary] = {}

    @classmethod
    def of(cls, program: ir.Program, analyses: Analyses | None = None) -> Analyses:
        """`known` if it is the memo of this program, else a new memo."""
        return analyses if analyses is not None and analyses.program is program else cls(program)

    def after(self, program: ir.Program) -> Analyses:
        """The memo of the result of a pass; this one if the pass changed nothing."""
        return Analyses.of(program, self)

    def get(self, analysis: Callable[[Analyses], T]) -> T:
        """The result of an analysis of the program."""
        if analysis not in self._results:
            self._results[analysis] = analysis(self)
        result: T = self._results[analysis]
        return result

    def get_for(self, function: ir.Function, analysis: Callable[[ir.Function, Analyses], T]) -> T:
        """The result of an analysis of one function."""
        key = (analysis, id(function))
        if key not in self._function_results:
            self._function_results[key] = (analysis(function, self), function)
        result: T = self._function_results[key][0]
        return result

    def get_from_callees(self, function: ir.Function, analysis: Callable[[ir.Function, Analyses], T]) -> T:
        """Like `get_for`, for an analysis that queries the results of callees: these are computed first."""

        def is_done(name: str) -> bool:
            return (analysis, id(self.functions[name])) in self._function_results

        if (analysis, id(function)) not in self._function_results:
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
        """The parameters that each kernel reads and writes."""
        return {name: ir.KernelAccess.of(k.params) for name, k in self.kernels.items()}

    @cached_property
    def externs(self) -> dict[str, ir.ExternDef]:
        """Declared operators by name, except those whose schema has no name."""
        return {e.name: e for e in reversed(self.program.externs) if "(" in e.schema}

    @cached_property
    def extern_info(self) -> dict[str, ir.ExternInfo]:
        """Declared operators with parsed schemas, except those whose schema cannot be parsed."""
        infos = {}
        for name, extern in self.externs.items():
            with suppress(SchemaError):
                infos[name] = ir.ExternInfo.of(extern)
        return infos

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
        """For each mutable constant in a shared storage: the first constant there, which is the root of the
        storage, and the byte offset from it. Aliases of immutable constants do not matter."""
        groups: dict[str, list[ir.Constant]] = {}
        for constant in self.program.constants:
            if constant.storage and constant.mutable:
                groups.setdefault(constant.storage, []).append(constant)
        shared: dict[ir.Value, tuple[ir.Value, int]] = {}
        for group in groups.values():
            first = min(group, key=lambda c: c.offset)
            shared |= {c.value: (first.value, c.offset - first.offset) for c in group}
        return shared

    @cached_property
    def constant_starts(self) -> Mapping[ir.Value, int]:
        """The byte offsets of `shared_constants`."""
        return {value: start for value, (_, start) in self.shared_constants.items()}

    @cached_property
    def symbols(self) -> dict[str, ir.SymbolDef]:
        """Declared symbols by name."""
        return {s.name: s for s in reversed(self.program.symbols)}

    # --- queries of ops and of the alias analysis (`EffectContext`, `AliasingContext`)

    def access(self, kernel: str) -> ir.KernelAccess | None:
        """The accesses of a kernel through its parameters; None if the kernel is unknown."""
        return self.kernel_access.get(kernel)

    def operator(self, target: str) -> ir.ExternInfo | None:
        """The declared operator of this name; None if it is unknown or its schema cannot be parsed."""
        return self.extern_info.get(target)

    def effects(self, op: ir.OpBase) -> ir.Effects:
        """The effects of an op of this program."""
        return op.effects(self)

    def summary(self, function: str) -> ir.FunctionSummary:
        """The effects of a call of a function. Unknown and recursive functions have an empty summary; the
        verifier refuses both."""
        if function not in self._summaries:
            missing = ir.callees_first(function, self.functions, self._summaries.__contains__)
            self._summaries |= dict.fromkeys((function, *missing), ir.FunctionSummary())
            for name in missing:
                self._summaries[name] = summarise(self.functions[name], self)
        return self._summaries[function]

    def aliasing(self, function: ir.Function) -> Aliasing:
        """The storages that each value of the function may be located in."""
        return self.get_for(function, analyse_aliasing)
