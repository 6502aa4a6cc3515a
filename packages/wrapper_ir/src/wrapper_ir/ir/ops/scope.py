"""Scopes: stretches of a function that a profiler shows, or in which memory comes from a pool of the process.

They are brackets: they nest, at most `MAX_SCOPES` deep, and end in the function that they begin in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.ir.ops.base import OpBase
from wrapper_ir.ir.ops.effects import EffectClass, EffectSpec, has
from wrapper_ir.ir.types import Device

MAX_SCOPES = 16
"""Scopes in one another at most: Python takes 20 blocks in one another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterProfile(OpBase):
    """Begins a scope that profilers show as `name`, with `details` in any form; `exit_scope` ends it.

    Text: `enter_profile "attention"`, `enter_profile "attention" "layer 3"`.
    """

    syntax: ClassVar[str] = "enter_profile {name}< {details}>"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.ORDER)

    name: str
    details: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterMemoryPool(OpBase):
    """Begins a scope in which new memory of `device` comes from the process's memory pool of this name: storages, aligned
    copies, and what operators and called functions allocate; `exit_scope` ends it.

    Memory goes back to where it came from, whenever it ends. Results do not depend on it: who has no pools (the
    interpreter) allocates as ever. The CPU has none, and a program that asks for one there is refused (WIR223).
    Text: `enter_memory_pool "activations" @cuda:0`.
    """

    syntax: ClassVar[str] = "enter_memory_pool {name}{device}"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.ORDER)

    name: str
    device: Device


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitScope(OpBase):
    """Ends the innermost scope. Text: `exit_scope`."""

    syntax: ClassVar[str] = "exit_scope"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.ORDER)


ScopeOp = EnterProfile | EnterMemoryPool | ExitScope
