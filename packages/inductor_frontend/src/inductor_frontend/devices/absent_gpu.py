"""Emulates a GPU that this machine does not have: queries of torch are answered from a table.

Torch queries devices in four ways: through torch.cuda, through device interfaces, through functions that
cache their result for the whole process, and through FakeTensorMode, which would initialize CUDA. The first
and the last are replaced. The second is given a separate interface. The caches of the third are cleared on
entry and on exit.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import torch
from torch._dynamo import device_interface
from torch.utils._triton import has_triton_package

from inductor_frontend.devices.attention import attention_on
from inductor_frontend.devices.guard import idle_guard
from inductor_frontend.devices.host import folding_on_host
from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import (
    FAKE_CONTEXTS,
    FAKE_DEVICES,
    FOLDING,
    GPU_FACTS,
    GPU_INTERFACES,
    TRITON_DRIVER,
)
from wrapper_ir_torch.gpu_properties import GpuProperties

_CACHED_QUERIES = (
    ("torch.utils._triton", "has_triton"),
    ("torch.utils._triton", "_device_supports_tma"),
    ("torch.utils._triton", "has_triton_experimental_host_tma"),
    ("torch.utils._triton", "has_triton_tensor_descriptor_host_tma"),
    ("torch.utils._triton", "has_triton_tma"),
    ("torch.utils._triton", "has_triton_tma_device"),
    ("torch.utils._triton", "has_datacenter_blackwell_tma_device"),
    ("torch.utils._triton", "has_triton_stable_tma_api"),
    ("torch._inductor.utils", "get_gpu_type"),
    ("torch._inductor.utils", "is_big_gpu"),
    ("torch._inductor.utils", "get_max_num_sms"),
    ("torch._inductor.utils", "using_b200"),
    ("torch._inductor.utils", "get_backend_num_stages"),
    ("torch._inductor.utils", "get_device_tflops"),
    ("torch._inductor.utils", "_triton_supported_fp8_dtypes"),
    ("torch._inductor.runtime.hints", "DeviceProperties.create"),
    ("torch._inductor.kernel.mm", "_is_sm7x_or_older_gpu"),
    ("torch._inductor.codegen.triton", "gen_attr_descriptor_import"),
    ("torch._inductor.codegen.triton", "TritonScheduling._setup_libdevice_routing"),
    ("torch._inductor.codegen.triton", "TritonKernel.gen_common_triton_imports"),
)
"""Functions of torch that cache a property of the device for the whole process."""


def _clear_caches() -> None:
    for module, path in _CACHED_QUERIES:
        function: object = importlib.import_module(module)
        for part in path.split("."):
            function = getattr(function, part, None)  # not every version has each
        clear = getattr(function, "cache_clear", None)
        if clear is not None:
            clear()


def _interface(gpu: GpuProperties) -> type[device_interface.DeviceInterface]:
    """Returns the device interface of a machine whose only GPU is this one. Running on it raises
    NotImplementedError."""

    class StandIn(device_interface.DeviceInterface):
        device = torch.cuda.device
        Event = torch.cuda.Event
        Stream = torch.cuda.Stream

        class Worker(device_interface.DeviceInterface.Worker):
            @staticmethod
            def current_device() -> int:
                return 0

            @staticmethod
            def get_device_properties(device: object = None) -> object:
                return gpu

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
        def synchronize(device: object = None) -> None:
            return None

        @staticmethod
        def get_compute_capability(device: object = None) -> int:
            return gpu.major * 10 + gpu.minor

        @staticmethod
        def is_bf16_supported(including_emulation: bool = False) -> bool:
            return including_emulation or gpu.major >= 8

        @staticmethod
        def is_triton_capable(device: object = None) -> bool:
            return gpu.major >= 7

    return StandIn


def _cuda(gpu: GpuProperties) -> dict[str, Callable[..., object]]:
    """Returns replacements for functions of torch.cuda, by name."""
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: False,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_properties": lambda device=None: gpu,
        "get_device_capability": lambda device=None: (gpu.major, gpu.minor),
        "get_device_name": lambda device=None: gpu.name,
        "is_bf16_supported": lambda including_emulation=True: gpu.major >= 8,
        "is_tf32_supported": lambda: gpu.major >= 8,
        "mem_get_info": lambda device=None: (gpu.total_memory, gpu.total_memory),
        "is_current_stream_capturing": lambda: False,
        "_lazy_init": lambda: None,
        "get_rng_state": lambda device="cuda": torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": lambda new_state, device="cuda": None,
    }


@contextmanager
def named_target(gpu: GpuProperties) -> Iterator[None]:
    """Sets a Triton driver that reports only the target. Torch needs no more to analyze which arguments the
    kernels of a model write."""
    if not has_triton_package():
        yield
        return
    from triton.backends.compiler import GPUTarget

    target = GPUTarget("cuda", gpu.major * 10 + gpu.minor, gpu.warp_size)
    with replaced(TRITON_DRIVER.by(_active=SimpleNamespace(get_current_target=lambda: target))):
        yield


@contextmanager
def stand_in(gpu: GpuProperties) -> Iterator[None]:
    """Presents one GPU of this kind to the process, as `cuda:0`, while the context is active.

    Fake tensors can be on it, and torch schedules and generates kernels for it. The previous state is
    restored on exit, also after an error.
    """
    with ExitStack() as stack:
        stack.enter_context(idle_guard())
        device_interface.get_interface_for_device("cpu")  # registers torch's interfaces, once per process
        interface = _interface(gpu)
        table = {**device_interface.device_interfaces, "cuda": interface, "cuda:0": interface}
        stack.enter_context(
            replaced(
                GPU_INTERFACES.by(device_interfaces=table),
                GPU_FACTS.by(**_cuda(gpu)),
                FAKE_DEVICES.by(avoid_device_init=property(lambda self: True)),
                FAKE_CONTEXTS.by(init_gpu_context=lambda device: None),
                FOLDING.by(run_node=folding_on_host(FOLDING.own())),
            )
        )
        stack.enter_context(named_target(gpu))
        stack.enter_context(attention_on(gpu))
        stack.callback(_clear_caches)
        _clear_caches()
        yield
