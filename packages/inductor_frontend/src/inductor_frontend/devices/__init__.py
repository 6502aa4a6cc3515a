"""Devices that a program can be captured for, present or not."""

from inductor_frontend.devices.places import on_device
from inductor_frontend.devices.stand_in import stand_in
from inductor_frontend.devices.targets import Place, place_of
from inductor_frontend.gpu_properties import DEVICES, GpuProperties, properties_here, properties_of

__all__ = [
    "DEVICES",
    "GpuProperties",
    "Place",
    "on_device",
    "place_of",
    "properties_here",
    "properties_of",
    "stand_in",
]
