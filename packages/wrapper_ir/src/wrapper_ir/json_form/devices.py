"""Devices as JSON: `{"type": "cuda", "index": 0}`."""

from __future__ import annotations

from wrapper_ir.json_form.codec import Codecs
from wrapper_ir.json_form.reading import Json
from wrapper_ir.types import Device

__all__ = ["decode_device", "encode_device"]

_DEVICE = Codecs().of(Device)


def encode_device(device: Device) -> Json:
    """The JSON of a device; an index of None is left out."""
    return _DEVICE.encode(None, device)


def decode_device(x: Json) -> Device:
    """The inverse of `encode_device`."""
    device: Device = _DEVICE.decode(None, x)
    return device
