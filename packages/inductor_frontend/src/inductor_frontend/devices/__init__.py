"""Devices that a program can be captured for, present or not."""

from inductor_frontend.devices.packages import DevicePackage, device_package
from inductor_frontend.devices.places import on_device
from inductor_frontend.devices.stand_in import stand_in
from inductor_frontend.devices.targets import CaptureTarget, capture_target
from inductor_frontend.gpu_properties import DEVICES, GpuProperties, properties_here, properties_of

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
