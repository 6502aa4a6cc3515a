"""A device outside of torch's tree: tensors on `toy` are in the host's memory, and its kernels are C++.

A vendor writes three parts, in this order:

- for torch: a library with the allocator, the device guard and a few operators, and the module `torch.toy`;
- for Inductor: a device interface, a scheduling, and the texts of its wrapper;
- for Wrapper IR: entry points `wrapper_ir.devices` for captures and `wrapper_ir.kernel_runtimes` for kernels.

Importing this module registers the first two.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device
from torch._inductor import config as inductor_config
from torch._inductor.codegen.common import (
    DeviceOpOverrides,
    register_backend_for_device,
    register_device_op_overrides,
)
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch.utils import cpp_extension
from torch.utils.backend_registration import (
    generate_methods_for_privateuse1_backend,
    rename_privateuse1_backend,
)

from cpp_wrapper import CppKernelRuntime
from inductor_frontend.devices import DevicePackage
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir_runtime.cache import open_cache, read_settings

NAME = "toy"
_SOURCE = Path(__file__).with_name("device_toy.cpp")


# Torch's side: a library, and the module `torch.toy`.


def _load_library() -> None:
    """Builds the library once per version of torch, and loads it."""

    def build(folder: Path) -> None:
        include = [f"-I{path}" for path in cpp_extension.include_paths()]
        link = [f"-L{path}" for path in cpp_extension.library_paths()]
        command = ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-w", *include, *link, str(_SOURCE)]
        subprocess.run([*command, "-o", str(folder / "toy.so"), "-lc10", "-ltorch_cpu"], check=True)

    key = f"{torch.__version__} {sys.version} {_SOURCE.read_text(encoding='utf-8')}"
    with open_cache(read_settings()).store("device-toy").ensure(key, build) as entry:
        torch.ops.load_library(str(entry.folder / "toy.so"))  # type: ignore[no-untyped-call]  # torch's


class _Current:
    """Makes a toy the current device; there is only one."""

    def __init__(self, device: object = 0) -> None:
        self.device = device

    def __enter__(self) -> None:
        return None

    def __exit__(self, *raised: object) -> None:
        return None


def _module() -> ModuleType:
    """`torch.toy`."""
    module = ModuleType(f"torch.{NAME}")
    vars(module).update(
        device=_Current,
        is_available=lambda: True,
        is_initialized=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        set_device=lambda device: None,
        synchronize=lambda device=None: None,
        _is_in_bad_fork=lambda: False,
        manual_seed_all=lambda seed: None,
        get_amp_supported_dtype=lambda: [torch.bfloat16],
    )
    return module


# Inductor's side.


def _interface(cores: int) -> type[DeviceInterface]:
    """Returns the device interface of a toy with this number of cores."""

    class Interface(DeviceInterface):
        device = _Current

        class Worker(DeviceInterface.Worker):
            @staticmethod
            def current_device() -> int:
                return 0

            @staticmethod
            def get_device_properties(device: Any = None) -> Any:  # Any: torch's interface has no types
                return SimpleNamespace(name=NAME, multi_processor_count=cores)

        @staticmethod
        def current_device() -> int:
            return 0

        @staticmethod
        def device_count() -> int:
            return 1

        @staticmethod
        def is_available() -> bool:
            return True

        @staticmethod
        def synchronize(device: Any = None) -> None:
            return None

        @staticmethod
        def get_compute_capability(device: Any = None) -> int:
            return 0

        @staticmethod
        def get_raw_stream(device_idx: int) -> int:
            return 0

    return Interface


class _Texts(DeviceOpOverrides):
    """Texts of Inductor's own wrapper. A captured program has ops instead."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"def {name}(_): return 0"

    def set_device(self, device_idx: int) -> str:
        return "pass"

    def synchronize(self) -> str:
        return "pass"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.{NAME}.device({device_idx})"


# Wrapper IR's side.


@dataclass(frozen=True, slots=True)
class ToyRuntime:
    """Builds and launches the kernels of a toy: C++ from the scheduling, which the host runs."""

    kind: str = NAME

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        """Loads one kernel."""
        return self.load_all([kernel], target)[kernel.name]

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        """Loads kernels by name. Raises the errors of the C++ runtime."""
        known = [kernel for kernel in kernels if isinstance(kernel, ir.ForeignKernel)]
        built = CppKernelRuntime().load_all([_on_the_host(kernel) for kernel in known], target)
        return {kernel.name: _launched(built[kernel.name]) for kernel in known}


def _on_the_host(kernel: ir.ForeignKernel) -> ir.CppKernel:
    """Returns the kernel for tensors of the host. Its first line names its instruction set."""
    first, _, source = kernel.payload.partition("\n")
    isa = tuple(first.removeprefix("// isa:").split())
    return ir.CppKernel(name=kernel.name, params=kernel.params, source=source, entry="kernel", isa=isa)


def _launched(kernel: LoadedKernel) -> LoadedKernel:
    """Returns a kernel for tensors on a toy: it passes their memory as tensors of the host."""

    def launch(*args: Any, **named: Any) -> None:
        kernel(*(_on_host(x) if isinstance(x, torch.Tensor) else x for x in args), **named)

    return launch


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    shown: torch.Tensor = torch.ops.toy.on_host(tensor)
    return shown


def _register() -> None:
    """Registers the device with torch and Inductor."""
    _load_library()
    rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _module())  # type: ignore[no-untyped-call]  # torch's
    generate_methods_for_privateuse1_backend(unsupported_dtype=None)
    register_interface_for_device(NAME, DEVICE.interfaces["v1"])
    register_device_op_overrides(NAME, _Texts())
    register_backend_for_device(NAME, CppScheduling, PythonWrapperCodegen)
    if hasattr(inductor_config, "loop_reindexing_after_fusion"):
        # Inductor treats the loops of all devices but the CPU as those of Triton kernels.
        inductor_config.loop_reindexing_after_fusion = False


DEVICE = DevicePackage(interfaces={"v1": _interface(cores=4), "v2": _interface(cores=16)}, here=lambda: "v1")
RUNTIME = ToyRuntime()
_register()
