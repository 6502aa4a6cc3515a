"""Look-up tables over one program, built once and shared by all analyses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from wrapper_ir.kernels import KernelDef
from wrapper_ir.program import Constant, Function, Program, SymbolDef
from wrapper_ir.schemas import ExternDef

__all__ = ["FunctionSummary", "ProgramIndex"]


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """What a call of a function may do: write these parameters (by position), and these effects beyond memory
    (names of `EffectClass` members)."""

    written_params: frozenset[int] = frozenset()
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProgramIndex:
    """Tables by name. With duplicate names the first definition wins; the verifier reports the second."""

    program: Program

    @cached_property
    def kernels(self) -> dict[str, KernelDef]:
        """Kernel definitions by name."""
        return {k.name: k for k in reversed(self.program.kernels)}

    @cached_property
    def externs(self) -> dict[str, ExternDef]:
        """Declared operators by name."""
        return {e.name: e for e in reversed(self.program.externs)}

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Functions by name."""
        return {f.name: f for f in reversed(self.program.functions)}

    @cached_property
    def constants(self) -> dict[str, Constant]:
        """Constants by value name."""
        return {c.value.name: c for c in reversed(self.program.constants)}

    @cached_property
    def summaries(self) -> dict[str, FunctionSummary]:
        """Memo of function summaries; filled by `wrapper_ir.effects`."""
        return {}

    @cached_property
    def symbols(self) -> dict[str, SymbolDef]:
        """Declared symbols by name."""
        return {s.name: s for s in reversed(self.program.symbols)}
