"""Addresses of functions in shared libraries, so that the launcher links none of them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

DRIVER_FUNCTIONS = (
    "cuInit",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGet",
    "cuDevicePrimaryCtxRetain",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuFuncSetCacheConfig",
    "cuPointerGetAttribute",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuDriverGetVersion",
    "cuTensorMapEncodeTiled",
)
"""The versions of these functions that `cuda.h` selects, in the order of the launcher's `Api`."""

GRAPH_FUNCTIONS = (
    "cuGraphGetRootNodes",
    "cuGraphNodeGetDependentNodes_v2",
    "cuGraphNodeGetType",
    "cuGraphKernelNodeGetParams_v2",
    "cuGraphKernelNodeGetAttribute",
    "cuGraphMemsetNodeGetParams",
    "cuGraphMemcpyNodeGetParams",
    "cuKernelGetFunction",
    "cuFuncGetParamInfo",
    "cuMemsetD8Async",
    "cuMemsetD16Async",
    "cuMemsetD32Async",
    "cuMemcpyDtoDAsync_v2",
    "cuStreamIsCapturing",
    "cuStreamCreate",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphDestroy",
)
"""The driver functions of operator recordings, in the order of the launcher's `GraphApi`; available since
CUDA 12.4.
"""

TENSOR_FUNCTIONS = (
    "aoti_torch_get_data_ptr",
    "aoti_torch_get_dtype",
    "aoti_torch_get_device_type",
    "aoti_torch_get_device_index",
    "aoti_torch_get_dim",
    "aoti_torch_get_sizes",
    "aoti_torch_get_strides",
    "aoti_torch_get_storage_offset",
    "aoti_torch_get_storage_size",
    "aoti_torch_dtype_element_size",
)
"""torch's stable C functions, in the order of the launcher's `TensorFunctions`."""

STREAM_FUNCTION = ("aoti_torch_get_current_cuda_stream",)


def addresses(path: str, names: Sequence[str]) -> bytes:
    """The addresses of a library's functions, 8 bytes each; the library stays open for the lifetime of the
    process.

    Raises OSError if it does not open or lacks a function.
    """
    library = ctypes.CDLL(path)
    try:
        pointers = [ctypes.cast(library[name], ctypes.c_void_p).value for name in names]
    except AttributeError as cause:
        raise OSError(f"{path} is too old: {cause}") from cause
    return struct.pack(f"={len(pointers)}Q", *pointers)
