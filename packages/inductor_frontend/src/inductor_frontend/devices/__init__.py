"""Devices that a program can be captured for, present or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.support.lazy import loaded_on_use
from wrapper_ir_torch.gpu_properties import DEVICES, GpuProperties, properties_here

if TYPE_CHECKING:
    from inductor_frontend.devices.absent_gpu import stand_in
    from inductor_frontend.devices.packages import DevicePackage, device_package
    from inductor_frontend.devices.places import on_device
    from inductor_frontend.devices.targets import CaptureTarget, capture_target, properties_of

__all__ = [
    "DEVICES",
    "CaptureTarget",
    "DevicePackage",
    "GpuProperties",
    "capture_target",
    "device_package",
    "on_device",
    "properties_here",
    "properties_of",
    "stand_in",
]

_MODULES = {
    "absent_gpu": ("stand_in",),
    "packages": ("DevicePackage", "device_package"),
    "places": ("on_device",),
    "targets": ("CaptureTarget", "capture_target", "properties_of"),
}
"""Modules of names that only captures for absent devices use; torch.compile loads none of them."""

__getattr__, __dir__ = loaded_on_use(__name__, _MODULES)
