"""The closed set of ops, one file a family.

`Op` is the union that every consumer must handle completely: with `match` ending in `assert_never`, or with a
table that a test compares with `OPS`. An op's class says everything that is mechanical about it; `wrapper_ir.ir.ops.spec`
reads it.
"""

from __future__ import annotations

from typing import get_args

from wrapper_ir.ir.ops.check import CheckOp
from wrapper_ir.ir.ops.collective import CollectiveOp
from wrapper_ir.ir.ops.control import ControlOp
from wrapper_ir.ir.ops.debug import DebugOp
from wrapper_ir.ir.ops.kernel import KernelOp
from wrapper_ir.ir.ops.memory import MemoryOp
from wrapper_ir.ir.ops.placement import PlacementOp
from wrapper_ir.ir.ops.scope import ScopeOp
from wrapper_ir.ir.ops.spec import OpSet
from wrapper_ir.ir.ops.symbolic import Define
from wrapper_ir.ir.ops.view import View

Op = (
    MemoryOp | View | KernelOp | Define | CheckOp | ControlOp | PlacementOp | ScopeOp | CollectiveOp | DebugOp
)

OPS = OpSet(get_args(Op))

"""The specs of all ops, in the order of the union."""
