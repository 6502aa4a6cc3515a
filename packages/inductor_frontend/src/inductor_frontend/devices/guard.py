"""Provides a CUDA device guard in a torch that was built without CUDA.

Torch's C++ code looks up the guard of a tensor's device before it indexes or moves the tensor or records its
derivative, also for a fake tensor. If no GPU is found, torch installs a guard that does nothing, but only in
place of a guard that reports zero devices. A build without CUDA has no such guard for CUDA. It has one for
lazy tensors: registered for CUDA for a moment, it lets torch install the idle guard.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from inductor_frontend.errors import CaptureError

# Symbols of torch's C++ API: c10::impl::device_guard_impl_registry, and the constructor that registers a
# guard.
_TABLE = "_ZN3c104impl26device_guard_impl_registryE"
_REGISTER = "_ZN3c104impl24DeviceGuardImplRegistrarC1ENS_10DeviceTypeEPKNS0_24DeviceGuardImplInterfaceE"
# c10::DeviceType
_CUDA = 1
_LAZY = 17


class _Guards:
    """Torch's table of guards, by device type. Raises ValueError or AttributeError if the library does not
    export it."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
        self._table = (ctypes.c_void_p * (_LAZY + 1)).in_dll(library, _TABLE)
        self._register = getattr(library, _REGISTER)
        self._register.argtypes = (ctypes.c_void_p, ctypes.c_int8, ctypes.c_void_p)
        self._register.restype = None
        self._registrar = ctypes.create_string_buffer(8)  # an object without fields

    def get(self, device: int) -> int | None:
        """Returns the address of the guard of a device type; None if none is registered."""
        return self._table[device]

    def set(self, device: int, guard: int | None) -> None:
        """Registers a guard, or removes the one that is registered."""
        self._register(self._registrar, device, guard)


_idle_guards: list[int] = []
"""Address of the idle guard of this process, after its first use: torch never destroys guards."""


@contextmanager
def idle_guard() -> Iterator[None]:
    """Ensures a guard for CUDA while the context is active; it does nothing unless torch has its own.

    Raises CaptureError FE103 if this build of torch offers no way to install one.
    """
    if torch.cuda._is_compiled():
        torch._C._ensureCUDADeviceGuardSet()  # as every FakeTensorMode does
        yield
        return
    try:
        guards = _Guards()
    except (OSError, ValueError, AttributeError) as error:
        raise _unsupported() from error
    before = guards.get(_CUDA)
    try:
        if before is None:
            guards.set(_CUDA, _idle(guards))
        yield
    finally:
        guards.set(_CUDA, before)


def _idle(guards: _Guards) -> int:
    if not _idle_guards:
        lazy = guards.get(_LAZY)
        guards.set(_CUDA, lazy)
        torch._C._ensureCUDADeviceGuardSet()
        idle = guards.get(_CUDA)
        if idle is None or idle == lazy:
            raise _unsupported()
        _idle_guards.append(idle)
    return _idle_guards[0]


def _unsupported() -> CaptureError:
    return CaptureError(
        "FE103",
        "this build of torch does not support CUDA",
        hint="capture for a GPU with a CUDA build of torch",
    )
