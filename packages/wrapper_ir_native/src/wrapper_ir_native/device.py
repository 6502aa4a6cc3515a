"""Results on a CUDA device, which other libraries read by DLPack."""

from __future__ import annotations

import ctypes
from typing import Protocol

from wrapper_ir_native import dlpack
from wrapper_ir_native.api import CPU, CUDA, DLTensor
from wrapper_ir_native.dlpack import Array, Borrowed, Capsule, RawTensor

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class _Legacy(ctypes.Structure):
    """`DLManagedTensor`, for readers of versions before 1."""

    _fields_ = (("dl_tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", _Deleter))


class _Versioned(ctypes.Structure):
    """`DLManagedTensorVersioned`."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    )


_exported: dict[int, object] = {}
"""Exported tensors with the owners of their memory, by address."""


def _delete(address: int) -> None:
    _exported.pop(address, None)


_delete_exported = _Deleter(_delete)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_NAMES = (b"dltensor", b"dltensor_versioned")


def _destroy(capsule: int) -> None:
    """Frees a tensor that no reader took."""
    for name in _NAMES:
        if _is_valid(capsule, name):
            _delete(_pointer(capsule, name))


_destroy_capsule = _Destructor(_destroy)


class _Owner(Protocol):
    """The part of a model that its tensors call."""

    def synchronize(self, stream: int) -> None: ...

    def copy_to(self, device: int, source: Borrowed) -> int: ...


class DeviceTensor:
    """A result in memory of a CUDA device. `numpy()` copies it to the host.

    Other libraries read it by DLPack: `torch.from_dlpack(tensor)`. `dtype` is the element type's name in the
    text form of programs, `shape` its sizes, `device` the index of the device.
    """

    def __init__(self, address: int, model: _Owner, stream: int, keeper: object = None) -> None:
        """Takes over the result at `address`, which calls on `stream` compute."""
        self.dtype, self.shape, self.device = dlpack.type_of(address)
        self._model, self._stream = model, stream
        self._tensor = dlpack.own(address, (model, keeper))

    def __repr__(self) -> str:
        return f"<{self.dtype}[{', '.join(map(str, self.shape))}] on cuda:{self.device}>"

    def numpy(self) -> Array | RawTensor:
        """Returns a copy on the host, after the work that computes the tensor."""
        self._model.synchronize(self._stream)
        return dlpack.array_of(self._model.copy_to(CPU, self._tensor), self._model).array

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns the device."""
        return CUDA, self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Capsule:
        """Returns a capsule over the same memory.

        `stream` will read it, as in DLPack: None or 1 is the default stream, -1 asks for no wait. The host
        waits for the tensor if that is another stream than its call's. Raises BufferError for a copy, or for
        another device.
        """
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(
                "a result on a device is exported there, without a copy; `numpy()` copies it to the host"
            )
        if stream != -1 and (stream or 1) != (self._stream or 1):
            self._model.synchronize(self._stream)
        is_versioned = max_version is not None and max_version[0] >= 1
        tensor = DLTensor.from_address(self._tensor.address)
        managed: _Legacy | _Versioned
        if is_versioned:
            managed = _Versioned(major=1, minor=0, deleter=_delete_exported, dl_tensor=tensor)
        else:
            managed = _Legacy(dl_tensor=tensor, deleter=_delete_exported)
        address = ctypes.addressof(managed)
        _exported[address] = (managed, self)
        return _capsule(address, _NAMES[is_versioned], _destroy_capsule)
