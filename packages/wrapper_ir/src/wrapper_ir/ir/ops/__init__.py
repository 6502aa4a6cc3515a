"""The closed set of ops, one file a family.

`Op` is the union that every consumer must handle completely: with `match` ending in `assert_never`, or with a
table that a test compares with `OPS`. An op's class says everything that is mechanical about it; `wrapper_ir.ir.ops.spec`
reads it.
"""

from __future__ import annotations

from typing import get_args

# Every family's own `__all__` says what is public; naming it here again would be a second list.
from wrapper_ir.ir.ops.base import *
from wrapper_ir.ir.ops.check import *
from wrapper_ir.ir.ops.collective import *
from wrapper_ir.ir.ops.control import *
from wrapper_ir.ir.ops.debug import *
from wrapper_ir.ir.ops.effects import *
from wrapper_ir.ir.ops.kernel import *
from wrapper_ir.ir.ops.memory import *
from wrapper_ir.ir.ops.placement import *
from wrapper_ir.ir.ops.scope import *
from wrapper_ir.ir.ops.spec import *
from wrapper_ir.ir.ops.symbolic import *
from wrapper_ir.ir.ops.view import *

Op = (
    MemoryOp | View | KernelOp | Define | CheckOp | ControlOp | PlacementOp | ScopeOp | CollectiveOp | DebugOp
)

OPS = OpSet(get_args(Op))
"""The specs of all ops, in the order of the union."""
