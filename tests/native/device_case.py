"""Native programs for CUDA devices on a fake driver, whose devices are the host."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import cpp_wrapper
import wrapper_ir_native
from cpp_wrapper import CppOptions
from tests.cpp.cpp_case import FAST
from tests.cpp.cpp_gpu import load_drivers
from wrapper_ir.artifact import Artifact
from wrapper_ir_native.api import CUDA, DLTensor, api_of
from wrapper_ir_native.dlpack import Array, Capsule
from wrapper_ir_native.program import Model

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class OnDevice:
    """An array as a tensor of a device, whose memory is the host's. `streams` are those that readers gave."""

    def __init__(self, array: Array, index: int = 0) -> None:
        self.array, self.index = array, index
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.index

    def __dlpack__(self, *, stream: int | None = None) -> Capsule:
        self.streams.append(stream)
        capsule = cast(Any, self.array).__dlpack__()
        tensor = DLTensor.from_address(_pointer(capsule, b"dltensor") or 0)
        tensor.device_type, tensor.device_id = CUDA, self.index
        return capsule


@dataclass
class FakeDevice:
    """The fake driver and cuBLASLt of this process."""

    driver: Any  # ctypes gives no types to a library's functions
    matmuls: ctypes.CDLL

    def log(self) -> list[str]:
        """Returns what the driver did since the last call."""
        text: bytes = self.driver.fake_log()
        self.driver.fake_forget()
        return [line.split()[0] for line in text.decode().splitlines()]

    def fail(self, function: str, status: int, times: int = 1) -> None:
        """The next calls of a function of the driver return this status."""
        self.driver.fake_fail(function.encode(), status, times)


def load_fakes() -> FakeDevice:
    """Returns the fakes, by whose names libraries find them."""
    drivers = load_drivers()
    driver = drivers.cuda.library
    driver.fake_log.restype = ctypes.c_char_p
    driver.fake_freed_on.restype = ctypes.c_uint64
    return FakeDevice(driver, drivers.matmuls)


def build_native(artifact: Artifact, path: Path, **options: object) -> Path:
    """Builds a native library."""
    chosen: CppOptions = replace(FAST, runtime="native", **options)  # type: ignore[arg-type]  # any options
    return cpp_wrapper.build(artifact, path, chosen)


def load_native(artifact: Artifact, path: Path, **options: object) -> wrapper_ir_native.NativeProgram:
    """Builds a native library and loads it."""
    return wrapper_ir_native.load(build_native(artifact, path, **options))


def open_linked(path: Path) -> wrapper_ir_native.NativeProgram:
    """Opens a library without checksums, as programs do that link it."""
    library = ctypes.CDLL(str(path))
    api = api_of(library)
    address = ctypes.c_void_p()
    assert api.open(None, ctypes.byref(address)) == 0, api.last_error()
    assert address.value is not None
    facts = json.loads(api.metadata(address))
    return wrapper_ir_native.NativeProgram(Model(library, api, address.value), facts, path)
