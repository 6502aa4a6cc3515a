"""The device that a program is captured for, as a caller names it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from inductor_frontend.devices.stand_in import named_target, stand_in
from inductor_frontend.errors import CaptureError
from inductor_frontend.gpu_properties import DEVICES, GpuProperties, properties_of
from wrapper_ir.program import Target
from wrapper_ir.types import Device

__all__ = ["CaptureTarget", "capture_target"]


@dataclass(frozen=True, slots=True)
class CaptureTarget:
    """Where a program is to run. The model and its arguments are traced as if they were on `device`; None: on the devices
    where they are. `gpu`: the properties that torch reads while it traces."""

    target: Target
    device: torch.device | None = None
    gpu: GpuProperties | None = None

    def emulated(self) -> AbstractContextManager[None]:
        """While the context is active, torch finds this device in the machine."""
        if self.gpu is not None:
            return stand_in(self.gpu)
        return nullcontext() if torch.cuda.is_available() else named_target(DEVICES["sm_90"])


def capture_target(target: Target | str | None, given: GpuProperties | None = None) -> CaptureTarget:
    """`None` and `"cpu"` leave things where they are; `"cuda:sm_90"` is a GPU of that architecture, present or not.
    Raises CaptureError FE103."""
    match target:
        case None | "cpu":
            return CaptureTarget(Target())
        case str():
            device, _, arch = target.partition(":")
        case Target():
            device, arch = target.device.type, target.arch
    if device == "cpu" and not arch:
        return CaptureTarget(Target())
    if device != "cuda" or not arch:
        raise CaptureError(
            "FE103", f"target {target!r} is not understood", hint='take None or "cuda:sm_90", for example'
        )
    gpu = properties_of(arch, given)
    return CaptureTarget(Target(device=Device("cuda", 0), arch=arch), torch.device("cuda", 0), gpu)
