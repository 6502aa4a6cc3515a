"""Scopes of profilers and of memory pools, which nodes begin and end."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from fx_converter._compat import has_effect
from fx_converter.targets.streams import Entered
from wrapper_ir.runtime import use_memory_pool

__all__ = ["enter_memory_pool", "enter_profile", "exit_scope"]


@has_effect
def enter_profile(name: str, details: str = "") -> Entered:
    """Begins a scope that profilers show; `exit_scope` ends it."""
    return _entered(torch.profiler.record_function(name, details or None))


@has_effect
def enter_memory_pool(name: str, device: str) -> Entered:
    """Makes memory of `device` come from the process's pool of this name; `exit_scope` ends that. Nothing happens where
    graphs are traced."""
    return Entered(None) if torch.compiler.is_compiling() else _entered(use_memory_pool(torch, name, device))


def _entered(context: AbstractContextManager[object]) -> Entered:
    context.__enter__()
    return Entered(context)


@has_effect
def exit_scope(entered: Entered) -> None:
    """Ends what the node began."""
    entered.leave()
