"""Explains launch errors. The launcher calls this when it cannot continue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from triton_runtime.arguments import is_tensor
from triton_runtime.errors import DriverError, LaunchError
from wrapper_ir import ir

STICKY_STATUSES = frozenset({700, 702, 709, 710, 714, 715, 716, 717, 718, 719})
"""Driver errors that make the device unusable for the process: an earlier kernel has failed."""
OUT_OF_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY."""
STICKY_HINT = (
    "an earlier kernel failed, and the device is lost for this process; CUDA_LAUNCH_BLOCKING=1 shows which"
)


@dataclass(frozen=True, slots=True)
class Explainer:
    """Raises the error for a launch of one kernel on one device."""

    kernel: ir.TritonKernel
    device: ir.Device
    shared_bytes: int = 0
    """Shared memory per block of the kernel's config."""

    def __call__(self, reason: str, position: int, value: object) -> NoReturn:
        """Raises LaunchError (TR301 to TR303, TR306 to TR308), or DriverError TR505 while loading a kernel.

        Either is a DeviceMemoryError if memory is full.
        """
        match reason:
            case "count":
                self._count(position)
            case "driver" if isinstance(value, tuple):
                self._driver(*value)
            case "grid":
                raise LaunchError(
                    "TR307",
                    f"kernel '{self.kernel.name}': a grid of {value} is out of range",
                    "sizes are 0 or more, at most 2147483647 in x and 65535 in y and z",
                )
            case "unloaded":
                raise LaunchError("TR308", f"kernel '{self.kernel.name}' was unloaded from its device")
            case _:
                self._argument(reason, position, value)

    def _names(self) -> Sequence[str]:
        return (*(p.name for p in self.kernel.params), *self.kernel.grid_params)

    def _count(self, count: int) -> NoReturn:
        names = self._names()
        raise LaunchError(
            "TR301",
            f"kernel '{self.kernel.name}' takes {len(names)} arguments ({', '.join(names)}), got {count}",
        )

    def _argument(self, reason: str, position: int, value: object) -> NoReturn:
        place = f"kernel '{self.kernel.name}', argument {position} '{self._names()[position]}': "
        params = self.kernel.params
        param = params[position] if position < len(params) else None
        dtype = "i64" if param is None else param.dtype.value
        match reason:
            case "tensor" | "dtype" | "device":
                raise LaunchError("TR302", f"{place}expected {self._wanted(param)}, got {_describe(value)}")
            case "memory":
                raise LaunchError(
                    "TR302", f"{place}a {type(value).__name__} has no memory that a kernel could use"
                )
            case "layout" if is_tensor(value):
                raise LaunchError(
                    "TR302",
                    f"{place}expected {self._wanted(param)} with {len(param.block) if param else 0} "
                    "dimensions, the last of "
                    f"stride 1, got sizes {tuple(value.shape)} and strides {value.stride()}",
                )
            case "int" | "float":
                expected = "an int" if reason == "int" else "a float"
                raise LaunchError("TR303", f"{place}expected {expected} ({dtype}), got {_describe(value)}")
            case "range":
                raise LaunchError("TR303", f"{place}{value} does not fit {dtype}")
            case "divisible":
                raise LaunchError(
                    "TR306",
                    f"{place}{_address(value)} is not a multiple of 16, which the kernel was compiled for",
                    "copy the tensor to an aligned one, or define the parameter without divisible(16)",
                )
            case _:
                raise LaunchError("TR308", f"{place}{reason}")

    def _wanted(self, param: ir.KernelParam | None) -> str:
        return f"a {param.dtype.value} tensor on {self.device}" if param is not None else "an int"

    def _driver(self, what: str, status: int, name: str, text: str) -> NoReturn:
        message = f"kernel '{self.kernel.name}' on {self.device}: could not {what}: {name} ({status}, {text})"
        hint = ""
        is_launch = what in ("launch", "describe a tensor")
        if status == OUT_OF_MEMORY:
            # its base class needs torch
            from triton_runtime.cuda.memory_error import DeviceMemoryError

            raise DeviceMemoryError("TR308" if is_launch else "TR505", message)
        if status in STICKY_STATUSES:
            hint = STICKY_HINT
        if what == "describe a tensor":
            hint = hint or "the address and strides of a tensor with blocks must be multiples of 16 bytes"
        if is_launch:
            raise LaunchError("TR308", message, hint)
        if what == "reserve shared memory":
            hint = hint or (
                f"its config takes {self.shared_bytes} bytes of shared memory a block; choose one with "
                "smaller blocks or fewer "
                "stages (tuning leaves out what does not fit)"
            )
        raise DriverError("TR505", message, hint or "was it compiled for this device, and does it fit on it?")


def _describe(value: object) -> str:
    # set if the value is a tensor
    dtype, device = getattr(value, "dtype", None), getattr(value, "device", None)
    if dtype is None or device is None:
        return (
            f"{type(value).__name__} {value!r:.60}"
            if isinstance(value, int | float)
            else type(value).__name__
        )
    return f"a {str(dtype).removeprefix('torch.')} tensor on {device}"


def _address(value: object) -> str:
    return f"the address {value.data_ptr():#x}" if is_tensor(value) else str(value)
