"""The C interface of a library (`wrapper_ir/model.h`) by ctypes."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

ABI = 1
INACTIVE, FULL, BORROWED = 1, 2, 4
"""Flags of `update_constants` and `extract_constant`."""
CPU, CUDA, CUDA_HOST = 1, 2, 3
"""Types of devices of DLPack."""


class DLTensor(ctypes.Structure):
    """A tensor of DLPack."""

    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class DLManagedTensorVersioned(ctypes.Structure):
    """A tensor of DLPack with its owner."""

    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("manager_ctx", c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, c_void_p)),
        ("flags", c_uint64),
        ("dl_tensor", DLTensor),
    )


class Options(ctypes.Structure):
    """`wir_options`."""

    _fields_ = (
        ("size", c_size_t),
        ("threads", c_int32),
        ("unchecked_constants", c_int32),
        ("path", c_char_p),
        ("begin", c_uint64),
        ("nbytes", c_uint64),
        ("weights", c_char_p),
        ("device", c_int32),
    )


_STATUS = c_int32
_RUN = ctypes.CFUNCTYPE(_STATUS, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t)


class Api(ctypes.Structure):
    """`wir_api`: the functions of a library. Calls release the interpreter's lock."""

    _fields_ = (
        ("abi", c_uint32),
        ("size", c_uint32),
        ("open", ctypes.CFUNCTYPE(_STATUS, c_void_p, c_void_p)),
        ("close", ctypes.CFUNCTYPE(None, c_void_p)),
        ("description", c_void_p),
        ("metadata", ctypes.CFUNCTYPE(c_char_p, c_void_p)),
        ("last_error", ctypes.CFUNCTYPE(c_char_p)),
        ("last_error_code", ctypes.CFUNCTYPE(c_char_p)),
        ("run", _RUN),
        ("run_into", _RUN),
        ("run_program", _RUN),
        ("update_constants", ctypes.CFUNCTYPE(_STATUS, c_void_p, c_void_p, c_void_p, c_size_t, c_uint32)),
        ("swap_constants", ctypes.CFUNCTYPE(_STATUS, c_void_p)),
        ("free_inactive_constants", ctypes.CFUNCTYPE(_STATUS, c_void_p)),
        ("extract_constant", ctypes.CFUNCTYPE(_STATUS, c_void_p, c_char_p, c_uint32, c_void_p)),
        ("use_stream", ctypes.CFUNCTYPE(_STATUS, c_void_p)),
        ("synchronize", ctypes.CFUNCTYPE(_STATUS, c_void_p)),
        ("copy_to", ctypes.CFUNCTYPE(_STATUS, c_void_p, c_int32, c_void_p, c_void_p)),
    )


def api_of(library: ctypes.CDLL) -> Api:
    """Returns the functions of a loaded library.

    Raises AttributeError if it is not a native library, ValueError if it has another interface.
    """
    get_api = library.wir_get_api
    get_api.restype, get_api.argtypes = ctypes.POINTER(Api), [c_uint32]
    api = get_api(ABI)
    if not api or api.contents.size < ctypes.sizeof(Api):
        raise ValueError(f"it has another interface than version {ABI}")
    table: Api = api.contents
    return table
