"""Finds the devices on which a program draws random numbers."""

from __future__ import annotations

from wrapper_ir import ir
from wrapper_ir.analysis.memo import Analyses


def random_devices(analyses: Analyses) -> tuple[ir.Device, ...]:
    """The devices whose random state the program's operators use, in the order of their first draw.

    An operator draws on the device of its results, else of its arguments, else on the program's target
    device.
    """
    program = analyses.program
    draws: dict[ir.Device, None] = {}
    for op in program.ops_of(ir.CallExtern):
        info = analyses.extern_info.get(op.target)
        if info is not None and ir.ExternTag.RANDOM in info.extern.tags:
            devices = map(ir.device_of, (*ir.results(op), *ir.operands(op)))
            draws[next(filter(None, devices), program.target.device)] = None
    return tuple(draws)
