"""Process groups of a library. Python finds them before each call: torch's C shim does not support them."""

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
    """Registers operators of a library that this process may lack.

    These allocate memory of process groups, or are torch's own that it registers on demand. Raises CppError
    CPP580.
    """
    late = any(name.startswith(f"{NAMESPACE}::") for name in (*facts["boxed"], *facts["bridges"]))
    if not late and not facts["sharing"]:
        return
    _require_package()
    from wrapper_ir_torch import torch_operators  # its own are registered with it

    if late:
        torch_operators(NAMESPACE)


def group_check(library: ctypes.CDLL, facts: Mapping[str, Any]) -> Callable[[], None] | None:
    """Returns a check to run before each call of the program; None if it has no process groups.

    The check raises NotSupportedError WIR915 and ExecutionError WIR936. If processes share memory, its first
    run compares their programs, and raises ExecutionError WIR933 unless all are the same.
    """
    if not facts["groups"]:
        return None
    if facts["sharing"]:
        return _SharedMemory(library, facts)
    return ProgramGroups(TorchGroups(torch), facts["groups"], facts["device"], facts["ranks"])


class _SharedMemory:
    """Finds the groups, and compares the programs of their processes before the first call.

    The library keeps tensors over the groups' memory between calls. It releases them when a group ends or its
    memory is released.
    """

    def __init__(self, library: ctypes.CDLL, facts: Mapping[str, Any]) -> None:
        from wrapper_ir_torch import (
            REGISTERED_MEMORY,
            SYMMETRIC_MEMORY,
            agreement,
        )  # see `register_operators`

        self._library = library
        names, device, ranks = facts["groups"], facts["device"], facts["ranks"]
        self._groups = ProgramGroups(TorchGroups(torch), names, device, ranks, on_new=self._release)
        self._agree: Callable[[], None] | None = agreement(facts["sharing"], facts["manifest"])
        for memory in (SYMMETRIC_MEMORY, REGISTERED_MEMORY):
            memory.tell(self._release)

    def __call__(self) -> None:
        self._groups()
        if self._agree is not None:
            self._agree()
            self._library.wir_agreed()  # until then, the library refuses calls
            self._agree = None

    def _release(self) -> None:
        self._library.wir_release()


def _require_package() -> None:
    """Raises CppError CPP580 without `wrapper_ir_torch`, an optional dependency with memory of process
    groups.
    """
    if importlib.util.find_spec("wrapper_ir_torch") is None:
        raise CppError(
            "CPP580",
            "the library has memory of process groups, but wrapper-ir-torch is not installed",
            "pip install 'cpp-wrapper[torch]'",
        )
