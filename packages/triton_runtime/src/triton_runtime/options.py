"""Options of the Triton kernel runtime."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from triton_runtime.choose import ChoiceOptions
from triton_runtime.protocols import ByteStore, Driver
from triton_runtime.tune import DeviceKey, Gather, Measurements, Timer, TuneOptions
from wrapper_ir import ir

Choose = Callable[[ir.TritonKernel], ir.TritonConfig]
"""Selects the config of a kernel."""


def first_config(kernel: ir.TritonKernel) -> ir.TritonConfig:
    """The config that a definition lists first: tuning moves its choice there."""
    return kernel.configs[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonOptions:
    """Options for choosing, compiling and running kernels.

    `choose` selects the config of a kernel that is not tuned. `tune`: a kernel with several configs is tuned
    at its first launch, from `measurements` or by measuring; None disables that. `gather` merges the times of
    all processes that tune together. `choice` configures the choice among the kernels of a multi-kernel.
    `timer` replaces the timer of the device type; `device_key` replaces the device's model and Triton's
    version as the validity of times.

    `executor` runs compilations; None: as many processes as WRAPPER_IR_BUILD_JOBS allows, while there are
    kernels to compile. `local`: until these processes can be started, kernels are compiled in this process,
    which a crashing compiler would end. `timeout` limits the seconds of one compilation. `store` stores
    compiled kernels; None: the store on disk. `driver` replaces that of the target's device.
    """

    choose: Choose = first_config
    tune: TuneOptions | None = None
    measurements: Measurements = field(default_factory=Measurements)
    gather: Gather | None = None
    choice: ChoiceOptions = field(default_factory=ChoiceOptions)
    timer: Timer | None = None
    device_key: DeviceKey | None = None
    executor: Executor | None = None
    local: bool = True
    timeout: float | None = 600.0
    store: ByteStore | None = None
    driver: Driver | None = None
