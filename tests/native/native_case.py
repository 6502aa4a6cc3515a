"""Builds and calls native libraries from tests."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

import cpp_wrapper
from cpp_wrapper import CppOptions
from wrapper_ir.artifact import Artifact

_DTYPES = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5, torch.float32: 6,
    torch.float64: 7, torch.complex32: 8, torch.complex64: 9, torch.complex128: 10, torch.bool: 11, torch.bfloat16: 15,
    torch.float8_e5m2: 23, torch.float8_e4m3fn: 24, torch.float8_e5m2fnuz: 25, torch.float8_e4m3fnuz: 26,
    torch.uint16: 27, torch.uint32: 28, torch.uint64: 29,
}  # fmt: skip
_TYPES = {code: dtype for dtype, code in _DTYPES.items()}


class _Plain(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("dtype", ctypes.c_int32),
        ("owner", ctypes.c_void_p),
    ]


class NativeLibrary:
    """A native library that takes and returns flat tensors."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.wir_last_error.restype = ctypes.c_char_p
        self._model = ctypes.c_void_p()
        self._check(self._library.wir_open(ctypes.byref(self._model)))

    def _check(self, error: int) -> None:
        if error:
            raise RuntimeError(self._library.wir_last_error().decode())

    def __call__(self, inputs: Sequence[Tensor], outputs: int = 1) -> list[Tensor | None]:
        """Runs the program; returns copies of its results."""
        made, kept = (_Plain * outputs)(), []
        given = (_Plain * max(len(inputs), 1))()
        for one, tensor in zip(given, inputs):
            ints = ctypes.c_int64 * max(tensor.dim(), 1)
            sizes, strides = ints(*tensor.shape), ints(*tensor.stride())
            kept += [sizes, strides]
            one.data, one.rank, one.sizes, one.strides = tensor.data_ptr(), tensor.dim(), sizes, strides
            one.dtype = _DTYPES[tensor.dtype]
        self._check(
            self._library.wir_run(
                self._model, given, ctypes.c_size_t(len(inputs)), made, ctypes.c_size_t(outputs)
            )
        )
        return [self._result(one) for one in made]

    def _result(self, one: _Plain) -> Tensor | None:
        if one.owner is None:
            return None
        shape, strides = one.sizes[: one.rank], one.strides[: one.rank]
        result = torch.empty_strided(shape, strides, dtype=_TYPES[one.dtype])
        nbytes = result.untyped_storage().nbytes()
        if nbytes:
            ctypes.memmove(result.data_ptr(), one.data, nbytes)
        self._library.wir_free(ctypes.c_void_p(one.owner))
        return result


def build_native(artifact: Artifact, folder: Path, **options: object) -> NativeLibrary:
    """Builds a program for the native runtime and opens the library."""
    path = cpp_wrapper.build(artifact, folder / "model.so", CppOptions(runtime="native", **options))  # type: ignore[arg-type]
    return NativeLibrary(path)
