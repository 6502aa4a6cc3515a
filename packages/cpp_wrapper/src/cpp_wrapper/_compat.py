"""What depends on the torch version: where its headers and libraries stand, and what it calls itself."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import torch
from torch._C._aoti import AOTIModelContainerRunnerCpu

from cpp_wrapper.errors import KernelError

__all__ = [
    "current_device",
    "open_runner",
    "takes_any",
    "tensor_offset",
    "torch_build",
    "torch_include_dirs",
    "torch_library_dir",
    "torch_version",
    "wrap_function",
]


def torch_include_dirs() -> tuple[Path, ...]:
    """Folders of torch's C++ headers.

    `torch.utils.cpp_extension` knows them too, but importing it costs a tenth of a second.
    """
    include = Path(torch.__file__).parent / "include"
    return (include, include / "torch" / "csrc" / "api" / "include")


def torch_library_dir() -> Path:
    """The folder of torch's shared libraries."""
    return Path(torch.__file__).parent / "lib"


def torch_build() -> str:
    """Names the exact build of torch: version and source revision."""
    return f"{torch.__version__} {torch.version.git_version}"


def takes_any(operator: str) -> bool:
    """Whether an argument of an operator, of its default overload, is declared as anything: a process group, or its name."""
    schemas = torch._C._jit_get_schemas_for_operator(operator)
    return any(str(argument.type) == "Any" for schema in schemas for argument in schema.arguments)


def torch_version() -> tuple[int, int]:
    """Major and minor version of torch."""
    major, minor, *_ = torch.__version__.split(".")
    return int(major), int(minor)


def current_device() -> int:
    """The index of the current CUDA device."""
    return torch.cuda.current_device()


def open_runner(library: Path) -> AOTIModelContainerRunnerCpu:
    """torch's runner of an AOTInductor library on the CPU. Raises RuntimeError."""
    return AOTIModelContainerRunnerCpu(str(library), 1)


@functools.cache
def tensor_offset() -> int:
    """Bytes from the begin of a Python tensor object to its `at::Tensor`, which is one pointer. Where it is has changed between
    versions; `_cdata` says its value. Raises KernelError CPP407."""
    tensor = torch.empty(1)
    count = type(tensor).__basicsize__ // ctypes.sizeof(ctypes.c_void_p)
    words = (ctypes.c_void_p * count).from_address(id(tensor))
    for number, word in enumerate(words):
        if word == tensor._cdata:
            return number * ctypes.sizeof(ctypes.c_void_p)
    raise KernelError("CPP407", f"torch {torch.__version__} lays out its tensor objects in an unknown way")


@functools.cache
def wrap_function() -> int:
    """The address of torch's function from `const at::TensorBase&` to a new Python object. Raises KernelError CPP407."""
    library = ctypes.CDLL(str(torch_library_dir() / "libtorch_python.so"))
    try:
        function = library._Z16THPVariable_WrapRKN2at10TensorBaseE
    except AttributeError as error:
        raise KernelError(
            "CPP407", f"torch {torch.__version__} makes its tensor objects in an unknown way"
        ) from error
    return ctypes.cast(function, ctypes.c_void_p).value or 0
