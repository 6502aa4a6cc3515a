"""Options of the Triton kernel runtime."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from triton_runtime.choose import ChoiceOptions
from triton_runtime.protocols import ByteStore, Driver
from triton_runtime.tune import DeviceKey, Gather, Timer, TuneOptions, TuningRecord
from wrapper_ir import ir

Choose = Callable[[ir.TritonKernel], ir.TritonConfig]
"""Says which config of a kernel to take."""


def first_config(kernel: ir.TritonKernel) -> ir.TritonConfig:
    """The config that a definition lists first: tuning puts its choice there."""
    return kernel.configs[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonOptions:
    """How kernels are chosen, compiled and run.

    `choose`: which config to take where nothing is tuned. `tune`: at its first launch, a kernel with several configs is
    tuned, from `record` or by measuring; None: not. `gather`: all processes that tune together bring their times
    together. `choice`: how one of the kernels of a multi-kernel is chosen. `timer`: measures instead of the one that the type
    of the device has; `device_key`: what times are valid for, instead of the model of the device and Triton's version.
    `executor`: runs compilations; None: as many processes as the environment's WRAPPER_IR_BUILD_JOBS says, for as long as
    there are kernels to compile. `local`: until these processes can be started, kernels are compiled in this one, which a compiler
    that crashes takes with it. `timeout`: seconds for one compilation.
    `store`: keeps what was compiled; None: the store on disk. `driver`: replaces the one that the target's device would
    have.
    """

    choose: Choose = first_config
    tune: TuneOptions | None = None
    record: TuningRecord = field(default_factory=TuningRecord)
    gather: Gather | None = None
    choice: ChoiceOptions = field(default_factory=ChoiceOptions)
    timer: Timer | None = None
    device_key: DeviceKey | None = None
    executor: Executor | None = None
    local: bool = True
    timeout: float | None = 600.0
    store: ByteStore | None = None
    driver: Driver | None = None
