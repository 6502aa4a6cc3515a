"""The device that a program is captured for, as a caller names it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from inductor_frontend.devices.absent_gpu import named_target, stand_in
from inductor_frontend.devices.packages import Interface, device_package, seen_as
from inductor_frontend.errors import CaptureError
from wrapper_ir import ir
from wrapper_ir.plugins.registry import plugin_names
from wrapper_ir_torch.gpu_properties import DEVICES, GpuProperties


@dataclass(frozen=True, slots=True)
class CaptureTarget:
    """Target of a capture. The model and its arguments are traced as if they were on `device`; None: on their
    own devices.

    `gpu` contains the properties that torch reads while it traces. `interface` answers for a device of
    another package.
    """

    target: ir.Target
    device: torch.device | None = None
    gpu: GpuProperties | None = None
    interface: Interface | None = None

    def emulated(self) -> AbstractContextManager[None]:
        """Presents this device to torch while the context is active."""
        if self.gpu is not None:
            return stand_in(self.gpu)
        if self.interface is not None:
            return seen_as(self.target.device.type, self.interface)
        return nullcontext() if torch.cuda.is_available() else named_target(DEVICES["sm_90"])


def capture_target(target: ir.Target | str | None, properties: GpuProperties | None = None) -> CaptureTarget:
    """Resolves a target. None and `"cpu"` keep the devices of the model.

    `"cuda:sm_90"` is a GPU of that architecture, present or not. `"NAME:ARCH"` is a device of the package
    with the entry point NAME in the group `wrapper_ir.devices`. Raises CaptureError FE103, FE370.
    """
    match target:
        case None | "cpu":
            return CaptureTarget(ir.Target())
        case str():
            device, _, arch = target.partition(":")
        case ir.Target():
            device, arch = target.device.type, target.arch
    if device == "cpu" and not arch:
        return CaptureTarget(ir.Target())
    package = device_package(device) if device != "cuda" else None
    if not arch or (device != "cuda" and package is None):
        raise CaptureError(
            "FE103",
            f"target {target!r} is not understood",
            hint=f"take None or {_known_targets()}, for example",
        )
    resolved = ir.Target(device=ir.Device(device, 0), arch=arch)
    if package is not None:
        return CaptureTarget(resolved, torch.device(device, 0), interface=package.interface(device, arch))
    return CaptureTarget(resolved, torch.device(device, 0), properties_of(arch, properties))


def _known_targets() -> str:
    """Returns example targets as text: one of each device type."""
    others = [f'"{name}:ARCH"' for name in plugin_names("devices")]
    return ", ".join(['"cuda:sm_90"', *others])


def properties_of(arch: str, requested: GpuProperties | None = None) -> GpuProperties:
    """Returns `requested`, or the table's properties of the architecture; raises CaptureError FE103."""
    if requested is not None:
        if requested.arch != arch:
            raise CaptureError("FE103", f"the target is {arch}, but CaptureOptions.gpu is a {requested.arch}")
        return requested
    properties = DEVICES.get(arch)
    if properties is None:
        raise CaptureError(
            "FE103",
            f"there are no properties of a GPU of architecture {arch!r}",
            hint=f"use one of {', '.join(DEVICES)}, or pass CaptureOptions.gpu",
        )
    return properties
