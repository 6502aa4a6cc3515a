"""What depends on the torch version: where its headers and libraries stand, and what it calls itself.

Sources and packages are made without torch, too: it is looked up where it stands, and imported by what runs programs.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

from cpp_wrapper.errors import CppError, KernelError

if TYPE_CHECKING:
    from torch._C._aoti import AOTIModelContainerRunnerCpu

_OLDEST = (2, 11)
_FACT = re.compile(r"^(__version__|git_version)\b[^=\n]*= *'([^']*)'", re.MULTILINE)


@functools.cache
def _folder() -> Path | None:
    """Where torch is installed."""
    spec = importlib.util.find_spec("torch")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def has_torch() -> bool:
    """Whether torch is installed."""
    return _folder() is not None


def need_torch(what: str) -> Path:
    """The folder of torch. Raises CppError CPP580 where it is not installed."""
    folder = _folder()
    if folder is None:
        raise CppError(
            "CPP580", f"{what} needs torch, which is not installed", "pip install 'cpp-wrapper[torch]'"
        )
    return folder


@functools.cache
def _facts() -> dict[str, str]:
    """What torch's `version.py` says; nothing is imported."""
    folder = _folder()
    return {} if folder is None else dict(_FACT.findall((folder / "version.py").read_text(encoding="utf-8")))


def torch_include_dirs() -> tuple[Path, ...]:
    """Folders of torch's C++ headers, none where it is not installed.

    `torch.utils.cpp_extension` knows them too, but importing it costs a tenth of a second.
    """
    folder = _folder()
    if folder is None:
        return ()
    include = folder / "include"
    return (include, include / "torch" / "csrc" / "api" / "include")


def torch_library_dir() -> Path:
    """The folder of torch's shared libraries. Raises CppError CPP580."""
    return need_torch("a kernel that Python calls") / "lib"


def torch_build() -> str:
    """Names the exact build of torch: version and source revision; '' where it is not installed."""
    return " ".join(_facts().values())


def takes_any(operator: str) -> bool:
    """Whether an argument of an operator, of its default overload, is declared as anything: a process group, or its name. Without
    torch nothing is known, and the answer is yes."""
    if not has_torch():
        return True
    import torch  # programs are written without it

    schemas = torch._C._jit_get_schemas_for_operator(operator)
    return any(str(argument.type) == "Any" for schema in schemas for argument in schema.arguments)


def torch_version() -> tuple[int, int]:
    """Major and minor version of torch; of the oldest that is supported where none is installed."""
    if not has_torch():
        return _OLDEST
    major, minor, *_ = _facts()["__version__"].split(".")
    return int(major), int(minor)


def current_device() -> int:
    """The index of the current CUDA device."""
    import torch  # programs are loaded where it is

    return torch.cuda.current_device()


def open_runner(library: Path) -> AOTIModelContainerRunnerCpu:
    """torch's runner of an AOTInductor library on the CPU. Raises RuntimeError."""
    from torch._C._aoti import AOTIModelContainerRunnerCpu as Runner

    return Runner(str(library), 1)


@functools.cache
def tensor_offset() -> int:
    """Bytes from the begin of a Python tensor object to its `at::Tensor`, which is one pointer. Where it is has changed between
    versions; `_cdata` says its value. Raises KernelError CPP407."""
    import torch  # programs are loaded where it is

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
    name = "_Z16THPVariable_WrapRKN2at10TensorBaseE"
    return _address("libtorch_python.so", name, "makes its tensor objects")


@functools.cache
def modes_function() -> int:
    """The address of torch's function that says whether the thread has modes of operators, of a bool: without those of torch's own.
    Raises KernelError CPP407."""
    name = "_ZN3c104impl20TorchDispatchModeTLS13any_modes_setEb"
    return _address("libc10.so", name, "keeps modes of operators")


def _address(library: str, name: str, what: str) -> int:
    try:
        function = ctypes.CDLL(str(torch_library_dir() / library))[name]
    except AttributeError as error:
        raise KernelError("CPP407", f"torch {torch_build()} {what} in an unknown way") from error
    return ctypes.cast(function, ctypes.c_void_p).value or 0
