"""What a program is captured for, as a caller says it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from inductor_frontend.devices.stand_in import named_target, stand_in
from inductor_frontend.errors import CaptureError
from inductor_frontend.gpu_properties import DEVICES, GpuProperties, properties_of
from wrapper_ir.program import Target
from wrapper_ir.types import Device

__all__ = ["Place", "place_of"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program is to run. `device` is where its model and arguments are traced as if they were there, None for
    where they are; `gpu` the properties that torch gets to see meanwhile."""

    target: Target
    device: torch.device | None = None
    gpu: GpuProperties | None = None

    def here(self) -> AbstractContextManager[None]:
        """For its length, torch finds such a device in this machine."""
        if self.gpu is not None:
            return stand_in(self.gpu)
        return nullcontext() if torch.cuda.is_available() else named_target(DEVICES["sm_90"])


def place_of(target: Target | str | None, given: GpuProperties | None = None) -> Place:
    """`None` and `"cpu"` leave things where they are; `"cuda:sm_90"` is a GPU of that architecture, present or not.
    Raises CaptureError FE103."""
    match target:
        case None | "cpu":
            return Place(Target())
        case str():
            device, _, arch = target.partition(":")
        case Target():
            device, arch = target.device.type, target.arch
    if device == "cpu" and not arch:
        return Place(Target())
    if device != "cuda" or not arch:
        raise CaptureError(
            "FE103", f"target {target!r} is not understood", hint='take None or "cuda:sm_90", for example'
        )
    gpu = properties_of(arch, given)
    return Place(Target(device=Device("cuda", 0), arch=arch), torch.device("cuda", 0), gpu)
