"""Look-up tables over one program, built once and shared by all analyses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from wrapper_ir.errors import SchemaError
from wrapper_ir.kernels import KernelAccess, KernelDef
from wrapper_ir.ops import Effects, FunctionSummary, OpBase
from wrapper_ir.program import Constant, Function, Program, SymbolDef
from wrapper_ir.schemas import ExternDef, ExternInfo
from wrapper_ir.values import Value

if TYPE_CHECKING:
    from wrapper_ir.aliasing import Aliasing

__all__ = ["ProgramIndex"]


@dataclass(frozen=True)
class ProgramIndex:
    """Tables by name. With duplicate names the first definition wins; the verifier reports the second."""

    program: Program

    @cached_property
    def kernels(self) -> dict[str, KernelDef]:
        """Kernel definitions by name."""
        return {k.name: k for k in reversed(self.program.kernels)}

    @cached_property
    def kernel_access(self) -> dict[str, KernelAccess]:
        """Which parameters each kernel reads and writes."""
        return {name: KernelAccess.of(k.params) for name, k in self.kernels.items()}

    @cached_property
    def externs(self) -> dict[str, ExternDef]:
        """Declared operators by name; those whose schema has no name are left out."""
        return {e.name: e for e in reversed(self.program.externs) if "(" in e.schema}

    @cached_property
    def extern_info(self) -> dict[str, ExternInfo]:
        """Declared operators with parsed schemas; those that cannot be parsed are left out."""
        found = {}
        for name, extern in self.externs.items():
            try:
                found[name] = ExternInfo.of(extern)
            except SchemaError:
                continue
        return found

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Functions by name."""
        return {f.name: f for f in reversed(self.program.functions)}

    @cached_property
    def constants(self) -> dict[str, Constant]:
        """Constants by value name."""
        return {c.value.name: c for c in reversed(self.program.constants)}

    @cached_property
    def shared_constants(self) -> Mapping[Value, tuple[Value, int]]:
        """Mutable constants that share storage: the one that stands for all of that storage (the one that begins first),
        and how many bytes after it each begins. What is never written needs no such thing."""
        groups: dict[str, list[Constant]] = {}
        for constant in self.program.constants:
            if constant.storage and constant.mutable:
                groups.setdefault(constant.storage, []).append(constant)
        found: dict[Value, tuple[Value, int]] = {}
        for group in groups.values():
            first = min(group, key=lambda c: c.offset)
            found |= {c.value: (first.value, c.offset - first.offset) for c in group}
        return found

    @cached_property
    def constant_starts(self) -> Mapping[Value, int]:
        """The bytes of `shared_constants`."""
        return {value: start for value, (_, start) in self.shared_constants.items()}

    @cached_property
    def symbols(self) -> dict[str, SymbolDef]:
        """Declared symbols by name."""
        return {s.name: s for s in reversed(self.program.symbols)}

    @cached_property
    def _summaries(self) -> dict[str, FunctionSummary]:
        return {}

    @cached_property
    def _aliasings(self) -> dict[int, Aliasing]:
        """By the identity of a function, which the analysis keeps alive."""
        return {}

    # --- effects and analyses, worked out once

    def access(self, kernel: str) -> KernelAccess | None:
        """What the kernel of this name does through its parameters; None for an unknown one."""
        return self.kernel_access.get(kernel)

    def operator(self, target: str) -> ExternInfo | None:
        """The declared operator of this name; None for an unknown one, or one whose schema cannot be read."""
        return self.extern_info.get(target)

    def effects(self, op: OpBase) -> Effects:
        """The effects of an op of this program."""
        return op.effects(self)

    def summary(self, function: str) -> FunctionSummary:
        """What a call of the function of this name does; unknown and recursive ones count as doing nothing (the verifier
        refuses both)."""
        known = self._summaries.get(function)
        if known is not None:
            return known
        self._summaries[function] = FunctionSummary()
        found = self.functions.get(function)
        if found is not None:
            # Imported here: a summary needs the aliasing of the callee, which needs the effects of its ops.
            from wrapper_ir.aliasing import summarise

            self._summaries[function] = summarise(found, self)
        return self._summaries[function]

    def aliasing(self, function: Function) -> Aliasing:
        """Which storage each value of the function may live in."""
        known = self._aliasings.get(id(function))
        if known is None:
            from wrapper_ir.aliasing import analyse_aliasing  # as above

            known = self._aliasings[id(function)] = analyse_aliasing(function, self)
        return known
