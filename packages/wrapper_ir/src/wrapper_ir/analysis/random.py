"""Where a program draws random numbers."""

from __future__ import annotations

from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.ir.ops import CallExtern
from wrapper_ir.ir.schemas import ExternTag
from wrapper_ir.ir.structure import operands, results
from wrapper_ir.ir.types import Device
from wrapper_ir.ir.values import device_of


def random_devices(analyses: Analyses) -> tuple[Device, ...]:
    """The devices whose random state the program's operators draw from, in the order of their first draw: an operator
    draws on the device of its results, else of its arguments, else on the program's own."""
    program = analyses.program
    found: dict[Device, None] = {}
    for op in program.ops:
        info = analyses.extern_info.get(op.target) if isinstance(op, CallExtern) else None
        if info is not None and ExternTag.RANDOM in info.extern.tags:
            devices = map(device_of, (*results(op), *operands(op)))
            found[next(filter(None, devices), program.target.device)] = None
    return tuple(found)
