"""Scopes: sections of a function that a profiler shows, or that allocate from a memory pool of the process.

Scopes nest, at most `MAX_SCOPES` deep, and end in the function in which they begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.ir.ops.base import OpBase
from wrapper_ir.ir.ops.effects import EffectClass, EffectSpec, has
from wrapper_ir.ir.types import Device

MAX_SCOPES = 16
"""The maximum nesting of scopes: Python's compiler limits nested blocks to 20."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterProfile(OpBase):
    """Begins a scope that profilers show as `name`, with `details` as free text; `exit_scope` ends it.

    Text: `enter_profile "attention"`, `enter_profile "attention" "layer 3"`.
    """

    syntax: ClassVar[str] = "enter_profile {name}< {details}>"
    effect_spec: ClassVar[EffectSpec] = has(EffectClass.ORDER)

    name: str
    details: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterMemoryPool(OpBase):
    """Begins a scope that allocates memory of `device` from the process's memory pool of this name.

    This includes storages, aligned copies, and allocations of operators and called functions. `exit_scope`
    ends the scope; memory returns to its pool whenever it is freed. Results do not depend on the pool:
    engines without pools (the interpreter) allocate as usual. The CPU has no pools, and a program that
    requests one there is refused (WIR223).

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
