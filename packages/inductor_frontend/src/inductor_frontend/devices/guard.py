"""A device guard for CUDA in a torch that was built without it.

Torch's C++ code asks for a guard of the tensor's device before it indexes a tensor, moves it or notes how to
differentiate it, also where the tensor is a fake one. Where no GPU is found, torch sets a guard that does nothing, but
only over one that says so; a build without CUDA has none that could. It has one for lazy tensors, which says that there
is not a device: lent to CUDA for a moment, it has torch set the idle guard.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from inductor_frontend.errors import CaptureError

# torch's C++ API: c10::impl::device_guard_impl_registry, and the constructor that registers a guard.
_TABLE = "_ZN3c104impl26device_guard_impl_registryE"
_REGISTER = "_ZN3c104impl24DeviceGuardImplRegistrarC1ENS_10DeviceTypeEPKNS0_24DeviceGuardImplInterfaceE"
# c10::DeviceType
_CUDA = 1
_LAZY = 17


class _Guards:
    """Torch's table of guards, by type of device. Raises ValueError or AttributeError where torch hides it."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
        self._table = (ctypes.c_void_p * (_LAZY + 1)).in_dll(library, _TABLE)
        self._register = getattr(library, _REGISTER)
        self._register.argtypes = (ctypes.c_void_p, ctypes.c_int8, ctypes.c_void_p)
        self._register.restype = None
        self._registrar = ctypes.create_string_buffer(8)  # an object without fields

    def get(self, device: int) -> int | None:
        """The address of a guard; None where there is none."""
        return self._table[device]

    def set(self, device: int, guard: int | None) -> None:
        """Registers a guard, or takes one away."""
        self._register(self._registrar, device, guard)


_made: list[int] = []
"""The idle guard of this process, once it was needed: torch never ends guards."""


@contextmanager
def idle_guard() -> Iterator[None]:
    """While the context is active, there is a guard for CUDA, which does nothing unless torch has its own. Raises CaptureError FE103
    where this torch offers no way."""
    if torch.cuda._is_compiled():
        torch._C._ensureCUDADeviceGuardSet()  # as every FakeTensorMode does
        yield
        return
    try:
        guards = _Guards()
    except (OSError, ValueError, AttributeError) as error:
        raise _no_way() from error
    before = guards.get(_CUDA)
    try:
        if before is None:
            guards.set(_CUDA, _idle(guards))
        yield
    finally:
        guards.set(_CUDA, before)


def _idle(guards: _Guards) -> int:
    if not _made:
        lent = guards.get(_LAZY)
        guards.set(_CUDA, lent)
        torch._C._ensureCUDADeviceGuardSet()
        found = guards.get(_CUDA)
        if found is None or found == lent:
            raise _no_way()
        _made.append(found)
    return _made[0]


def _no_way() -> CaptureError:
    return CaptureError(
        "FE103", "this build of torch knows no CUDA", hint="capture for a GPU with a build that has CUDA"
    )
