"""What depends on the torch version: where its headers and libraries stand, and what it calls itself."""

from __future__ import annotations

from pathlib import Path

import torch
from torch._C._aoti import AOTIModelContainerRunnerCpu

__all__ = [
    "open_runner",
    "takes_any",
    "torch_build",
    "torch_include_dirs",
    "torch_library_dir",
    "torch_version",
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


def open_runner(library: Path) -> AOTIModelContainerRunnerCpu:
    """torch's runner of an AOTInductor library on the CPU. Raises RuntimeError."""
    return AOTIModelContainerRunnerCpu(str(library), 1)
