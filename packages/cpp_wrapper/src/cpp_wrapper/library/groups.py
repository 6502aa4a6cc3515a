"""Process groups of a library: what Python does for it before each call, since torch's C shim does not know them."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import torch

from cpp_wrapper.errors import CppError
from wrapper_ir.operators.symmetric import NAMESPACE
from wrapper_ir_runtime import ProgramGroups, TorchGroups

# Any in this file: JSON


def register_operators(facts: Mapping[str, Any]) -> None:
    """Registers the operators of a library that this process may lack: those which allocate memory of process groups, and those of torch that
    it registers only where somebody asks for them. Raises CppError CPP580."""
    late = any(name.startswith(f"{NAMESPACE}::") for name in (*facts["boxed"], *facts["bridges"]))
    if not late and not facts["sharing"]:
        return
    _require_package()
    from wrapper_ir_torch import torch_operators  # its own are registered with it

    if late:
        torch_operators(NAMESPACE)


def group_check(library: ctypes.CDLL, facts: Mapping[str, Any]) -> Callable[[], None] | None:
    """What a call of the library's program does first; None where it has no process groups.

    Raises NotSupportedError WIR915 and ExecutionError WIR936, and, where processes share memory, ExecutionError WIR933 unless all of them run
    the same program, which is asked once.
    """
    if not facts["groups"]:
        return None
    if facts["sharing"]:
        return _SharedMemory(library, facts)
    return ProgramGroups(TorchGroups(torch), facts["groups"], facts["device"], facts["ranks"])


class _SharedMemory:
    """Finds the groups, and compares the programs of their processes before the first call. The library keeps tensors over their memory from
    call to call, and lets go of them where a group has ended, or its memory is released."""

    def __init__(self, library: ctypes.CDLL, facts: Mapping[str, Any]) -> None:
        from wrapper_ir_torch import (
            REGISTERED_MEMORY,
            SYMMETRIC_MEMORY,
            agreement,
        )  # see `register_operators`

        self._library = library
        found = facts["groups"], facts["device"], facts["ranks"]
        self._groups = ProgramGroups(TorchGroups(torch), *found, on_new=self._release)
        self._agree: Callable[[], None] | None = agreement(facts["sharing"], facts["manifest"])
        for memory in (SYMMETRIC_MEMORY, REGISTERED_MEMORY):
            memory.tell(self._release)

    def __call__(self) -> None:
        self._groups()
        if self._agree is not None:
            self._agree()
            self._library.wir_agreed()  # it refuses to run before
            self._agree = None

    def _release(self) -> None:
        self._library.wir_release()


def _require_package() -> None:
    """The package that has memory of process groups is an extra, as torch is."""
    if importlib.util.find_spec("wrapper_ir_torch") is None:
        raise CppError(
            "CPP580",
            "the library has memory of process groups, which needs wrapper-ir-torch, and that is not installed",
            "pip install 'cpp-wrapper[torch]'",
        )
