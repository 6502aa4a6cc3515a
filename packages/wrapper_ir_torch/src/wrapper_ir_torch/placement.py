"""Functions that read and set the current device and the current stream of an accelerator.

Python raises KeyboardInterrupt between two calls of a function, but not within one in C. A guard therefore
reads the current device before `try`, sets another one inside it, and restores the first one in `finally` by
one function in C. The `__enter__` of torch's contexts may be interrupted after it has set a device, and their
`__exit__` is then not called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import torch

_NATIVE = ("cuda", "xpu")
"""Types of devices whose functions in C have one interface."""


@dataclass(frozen=True, slots=True)
class DeviceFunctions:
    """Functions of one type of device. Those that restore are in C for devices of torch itself."""

    current_device: Callable[[], int]
    """Returns the index of the current device."""
    set_device: Callable[[int], object]
    """Makes a device current."""
    restore_device: Callable[[int], object]
    """Makes the earlier device current again, without creating its context."""
    current_stream: Callable[[int], tuple[object, ...]]
    """Returns the arguments that `restore_stream` needs to make a device's current stream current again."""
    enter_stream: Callable[..., object]
    """Makes a stream, and its device, current."""
    restore_stream: Callable[..., object]
    """Makes the earlier stream, and its device, current again."""


def device_functions(kind: str) -> DeviceFunctions:
    """Returns the functions of a type of device, such as `cuda`."""
    if kind in _NATIVE and hasattr(torch._C, f"_{kind}_setStream"):
        names = "getDevice", "exchangeDevice", "maybeExchangeDevice", "getCurrentStream", "setStream"
        get, exchange, restore, stream, set_stream = (getattr(torch._C, f"_{kind}_{name}") for name in names)
        return DeviceFunctions(get, exchange, restore, stream, partial(_enter_native, set_stream), set_stream)
    module: ModuleType = getattr(torch, kind)  # torch.NAME is the module of a device
    set_device, set_stream = partial(_enter, module, "device"), partial(_enter, module, "stream")
    current = partial(_current_stream, module)
    return DeviceFunctions(module.current_device, set_device, set_device, current, set_stream, set_stream)


def _enter_native(set_stream: Callable[..., object], stream: torch.Stream) -> None:
    set_stream(stream.stream_id, stream.device_index, stream.device_type)


def _current_stream(module: ModuleType, index: int) -> tuple[object, ...]:
    return (module.current_stream(index),)


def _enter(module: ModuleType, name: str, value: object) -> None:
    getattr(module, name)(value).__enter__()  # the interface of a device's module has no other setter
