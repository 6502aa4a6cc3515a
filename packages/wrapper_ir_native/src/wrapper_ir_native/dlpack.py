"""Tensors of callers as DLPack tensors, and results of a library as arrays."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from wrapper_ir_native.api import CPU, CUDA_HOST, DLManagedTensorVersioned, DLTensor
from wrapper_ir_native.element_types import ELEMENT_TYPES, ElementType
from wrapper_ir_native.errors import ArgumentError

Array: TypeAlias = npt.NDArray[np.generic]
Capsule: TypeAlias = object


_NAMES = {(t.code, t.bits, t.lanes): name for name, t in ELEMENT_TYPES.items()}
_OF_NUMPY = {np.dtype(t.bits_as): t for t in ELEMENT_TYPES.values() if not t.extension}
_EXTENSIONS = {t.extension: t for t in ELEMENT_TYPES.values() if t.extension}

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_OFFSET = DLManagedTensorVersioned.dl_tensor.offset
_READ_ONLY = 1


class _Exporter(Protocol):
    def __dlpack__(self, *, stream: int | None = None) -> Capsule: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


class RawTensor:
    """A tensor whose element type numpy lacks. `bits` is an array of unsigned integers with its memory.

    `dtype` is the type's name in the text form of programs: `bf16`, `f8e4m3fn`, `c32`. Libraries such as
    torch read it by DLPack (`torch.from_dlpack(raw)`), and models accept it as an argument.
    """

    def __init__(self, dtype: str, bits: Array) -> None:
        """Raises ArgumentError WIR926 for another type, or for bits of another size."""
        kind = ELEMENT_TYPES.get(dtype)
        if kind is None or not kind.extension or bits.dtype.str != kind.bits_as:
            raise ArgumentError("WIR926", f"a raw tensor of {dtype} cannot have bits of {bits.dtype}")
        self.dtype, self.bits = dtype, bits
        self._kind = kind

    def __repr__(self) -> str:
        return f"RawTensor({self.dtype!r}, {self.bits!r})"

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, in elements."""
        return tuple(self.bits.shape)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns the CPU."""
        return 1, 0

    def __dlpack__(self, **_: object) -> Capsule:
        """Returns a capsule over the same memory."""
        capsule = cast(_Exporter, self.bits).__dlpack__()
        tensor = DLTensor.from_address(_get_pointer(capsule, b"dltensor"))
        tensor.code, tensor.bits, tensor.lanes = self._kind.code, self._kind.bits, self._kind.lanes
        return capsule


# --- arguments


class Borrowed(NamedTuple):
    """An argument of a call: the address of its DLPack tensor, and the object that keeps it."""

    address: int
    keeper: object


def is_on_host(value: object) -> bool:
    """Returns whether a value is an array or a tensor in memory of the host."""
    if not hasattr(value, "__dlpack_device__"):
        return False
    return cast(_Exporter, value).__dlpack_device__()[0] in (CPU, CUDA_HOST)


def borrow(value: object, name: str, *, is_written: bool = False, stream: int | None = None) -> Borrowed:
    """Returns a tensor argument. `is_written`: the call writes it.

    `stream` is the stream that will read a tensor on a device, as in DLPack. Raises ArgumentError WIR926.
    """
    if type(value) is np.ndarray:
        return _borrow_array(value, name, is_written)
    if not hasattr(value, "__dlpack__"):
        kind = "None" if value is None else f"a {type(value).__name__}"
        raise ArgumentError("WIR926", f"argument {name}: expected an array, got {kind}")
    try:
        if stream is None or is_on_host(value):
            capsule = cast(_Exporter, value).__dlpack__()
        else:
            capsule = cast(_Exporter, value).__dlpack__(stream=stream)
    except (BufferError, TypeError, RuntimeError) as error:
        if isinstance(value, np.ndarray | np.generic):
            return _borrow_array(np.asarray(value), name, is_written)
        raise ArgumentError("WIR926", f"argument {name} has no DLPack form: {error}") from error
    return borrow_capsule(capsule)


def borrow_capsule(capsule: Capsule) -> Borrowed:
    """Returns the tensor of a capsule."""
    name = _get_name(capsule)
    address: int = _get_pointer(capsule, name)
    return Borrowed(address + (_OFFSET if name == b"dltensor_versioned" else 0), capsule)


def _borrow_array(array: Array, name: str, is_written: bool) -> Borrowed:
    if array.flags.writeable and array.dtype in _OF_NUMPY:
        capsule = cast(_Exporter, array).__dlpack__()
        return Borrowed(_get_pointer(capsule, b"dltensor"), capsule)
    if is_written and not array.flags.writeable:
        raise ArgumentError("WIR926", f"argument {name}: the model writes it, and the array is read-only")
    kind = _OF_NUMPY.get(array.dtype) or _EXTENSIONS.get(array.dtype.name)
    if kind is None:
        raise ArgumentError("WIR926", f"argument {name}: no element type of a model is {array.dtype.str}")
    steps = [stride // array.itemsize for stride in array.strides]
    if any(stride % array.itemsize for stride in array.strides):
        raise ArgumentError(
            "WIR926", f"argument {name}: strides are not multiples of an element: pass a copy"
        )
    return _plain(array.ctypes.data, kind, array.shape, steps, array)


def _plain(
    address: int, kind: ElementType, shape: Sequence[int], strides: Sequence[int], keeper: object
) -> Borrowed:
    ints = ctypes.c_int64 * len(shape)
    sizes, steps = ints(*shape), ints(*strides)
    tensor = DLTensor(address, 1, 0, len(shape), kind.code, kind.bits, kind.lanes, sizes, steps, 0)
    return Borrowed(ctypes.addressof(tensor), (tensor, sizes, steps, keeper))


_NUMBERS: dict[str, tuple[type, str, str]] = {
    "int": (int, "q", "i64"),
    "float": (float, "d", "f64"),
    "bool": (bool, "?", "bool"),
}
"""The class of a number argument, the format of its bytes, and its element type."""


def borrow_number(value: object, name: str, kind: str) -> Borrowed:
    """Returns a number argument as a tensor without dimensions. Raises ArgumentError WIR926."""
    cls, form, dtype = _NUMBERS[kind]
    if type(value) is not cls:
        raise ArgumentError("WIR926", f"argument {name}: expected {kind}, got {type(value).__name__}")
    if cls is int and not -(2**63) <= cast(int, value) < 2**63:
        raise ArgumentError("WIR926", f"argument {name}: {value} is not an int64")
    cell = ctypes.create_string_buffer(struct.pack(form, value), 16)
    return _plain(ctypes.addressof(cell), ELEMENT_TYPES[dtype], (), (), cell)


def number_place(kind: str) -> Borrowed:
    """Returns memory for a number that is a result."""
    cls, _, _ = _NUMBERS[kind]
    return borrow_number(cls(0), "", kind)


# --- results


class _Result:
    """Memory of a result, as numpy reads it. Deletes the result with the last array over it."""

    def __init__(self, address: int, keeper: object) -> None:
        self._address, self._keeper = address, keeper
        self._managed = DLManagedTensorVersioned.from_address(address)
        self.__array_interface__: dict[str, object] = {}

    def __del__(self) -> None:
        self._managed.deleter(self._address)


def own(address: int, keeper: object) -> Borrowed:
    """Returns a result as an argument. It is deleted with the argument's keeper."""
    return Borrowed(address + _OFFSET, _Result(address, keeper))


class Lent(NamedTuple):
    """A result of a library."""

    array: Array | RawTensor
    first: int
    """The address of its first element."""


def array_of(address: int, keeper: object) -> Lent:
    """Returns a result, which numpy owns from now on, as an array. `keeper` is alive as long as the array."""
    result = _Result(address, keeper)
    tensor = result._managed.dl_tensor
    name = _NAMES[tensor.code, tensor.bits, tensor.lanes]
    kind = ELEMENT_TYPES[name]
    rank = tensor.ndim
    shape, nbytes = tuple(tensor.shape[:rank]), kind.bits * kind.lanes // 8
    first = (tensor.data or 0) + tensor.byte_offset
    result.__array_interface__ = {
        "version": 3,
        "typestr": kind.bits_as,
        "shape": shape,
        "strides": tuple(stride * nbytes for stride in tensor.strides[:rank]),
        "data": (first, False),
    }
    array = np.asarray(result) if 0 not in shape else np.empty(shape, kind.bits_as)
    if not kind.extension:
        return Lent(array, first)
    dtype = _extension_type(kind.extension)
    return Lent(RawTensor(name, array) if dtype is None else array.view(dtype), first)


def _extension_type(name: str) -> npt.DTypeLike | None:
    """Returns a type of `ml_dtypes`; None if it is not installed, or lacks the type."""
    try:
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]  # an extra
    except ImportError:
        return None
    return getattr(ml_dtypes, name, None)  # its types by name


def type_of(address: int) -> tuple[str, tuple[int, ...], int]:
    """Returns the element type, sizes, and device index of a result."""
    tensor = DLManagedTensorVersioned.from_address(address).dl_tensor
    name = _NAMES[tensor.code, tensor.bits, tensor.lanes]
    return name, tuple(tensor.shape[: tensor.ndim]), int(tensor.device_id)


def scalar_of(address: int) -> int | float | bool:
    """Returns the number of a result without dimensions, and deletes it."""
    lent = array_of(address, None)
    value: int | float | bool = cast(Array, lent.array).item()
    return value


def capsule_of(address: int) -> object:
    """Returns a result as a capsule of DLPack, which its consumer owns."""
    return _new_capsule(address, b"dltensor_versioned", None)
