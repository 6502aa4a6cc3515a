"""Code that depends on the torch version: locations of headers and libraries, and names.

Sources and packages can be built without torch. It is located without an import; only functions that run
programs import it.
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
    """Returns the folder of the torch package, or None."""
    spec = importlib.util.find_spec("torch")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def has_torch() -> bool:
    """Returns whether torch is installed."""
    return _folder() is not None


def need_torch(what: str) -> Path:
    """Returns the folder of torch. Raises CppError CPP580 if it is not installed."""
    folder = _folder()
    if folder is None:
        raise CppError(
            "CPP580", f"{what} needs torch, which is not installed", "pip install 'cpp-wrapper[torch]'"
        )
    return folder


@functools.cache
def _facts() -> dict[str, str]:
    """Reads the names in torch's `version.py` without importing it."""
    folder = _folder()
    return {} if folder is None else dict(_FACT.findall((folder / "version.py").read_text(encoding="utf-8")))


def torch_include_dirs() -> tuple[Path, ...]:
    """Returns the folders of torch's C++ headers; none if torch is not installed.

    `torch.utils.cpp_extension` knows them too, but importing it costs a tenth of a second.
    """
    folder = _folder()
    if folder is None:
        return ()
    include = folder / "include"
    return (include, include / "torch" / "csrc" / "api" / "include")


def torch_library_dir() -> Path:
    """Returns the folder of torch's shared libraries. Raises CppError CPP580."""
    return need_torch("a kernel that Python calls") / "lib"


def torch_build() -> str:
    """Returns the exact build of torch, as version and source revision; '' if it is not installed."""
    return " ".join(_facts().values())


def takes_any(operator: str) -> bool:
    """Returns whether the default overload of an operator declares an argument of type Any.

    Such an argument accepts a process group or its name. Returns True if torch is not installed.
    """
    if not has_torch():
        return True
    import torch  # sources are emitted without it

    schemas = torch._C._jit_get_schemas_for_operator(operator)
    return any(str(argument.type) == "Any" for schema in schemas for argument in schema.arguments)


def torch_version() -> tuple[int, int]:
    """Returns major and minor version of torch, or the oldest supported ones if torch is not installed."""
    if not has_torch():
        return _OLDEST
    major, minor, *_ = _facts()["__version__"].split(".")
    return int(major), int(minor)


def current_device() -> int:
    """Returns the index of the current CUDA device."""
    import torch  # imported here: only loaded programs need it

    return torch.cuda.current_device()


def open_runner(library: Path) -> AOTIModelContainerRunnerCpu:
    """Opens an AOTInductor library in torch's CPU runner. Raises RuntimeError."""
    from torch._C._aoti import AOTIModelContainerRunnerCpu as Runner

    return Runner(str(library), 1)


@functools.cache
def tensor_offset() -> int:
    """Returns the byte offset of the `at::Tensor`, which is one pointer, in a Python tensor object.

    The offset differs between versions of torch, so the object is searched for the value of `_cdata`. Raises
    KernelError CPP407.
    """
    import torch  # imported here: only loaded programs need it

    tensor = torch.empty(1)
    count = type(tensor).__basicsize__ // ctypes.sizeof(ctypes.c_void_p)
    words = (ctypes.c_void_p * count).from_address(id(tensor))
    for number, word in enumerate(words):
        if word == tensor._cdata:
            return number * ctypes.sizeof(ctypes.c_void_p)
    raise KernelError("CPP407", f"torch {torch.__version__} lays out its tensor objects in an unknown way")


@functools.cache
def wrap_function() -> int:
    """Returns the address of torch's function from `const at::TensorBase&` to a new Python object.

    Raises KernelError CPP407.
    """
    name = "_Z16THPVariable_WrapRKN2at10TensorBaseE"
    return _address("libtorch_python.so", name, "makes its tensor objects")


@functools.cache
def modes_function() -> int:
    """Returns the address of torch's function that reports active dispatch modes of the thread.

    Its bool argument excludes the modes that torch itself uses. Raises KernelError CPP407.
    """
    name = "_ZN3c104impl20TorchDispatchModeTLS13any_modes_setEb"
    return _address("libc10.so", name, "keeps modes of operators")


def _address(library: str, name: str, what: str) -> int:
    try:
        function = ctypes.CDLL(str(torch_library_dir() / library))[name]
    except AttributeError as error:
        raise KernelError("CPP407", f"torch {torch_build()} {what} in an unknown way") from error
    return ctypes.cast(function, ctypes.c_void_p).value or 0
