"""The closed set of ops, one file per family.

Every consumer handles the whole union `Op`: with a `match` that ends in `assert_never`, or with a table that
a test compares with `OPS`. An op's class declares its fields, text form and effects; `wrapper_ir.ir.ops.spec`
reads them.
"""

from __future__ import annotations

from typing import get_args

from wrapper_ir.ir.ops.check import CheckOp
from wrapper_ir.ir.ops.collective import CollectiveOp, CollectiveStart
from wrapper_ir.ir.ops.control import CallSubgraph, ControlOp, Switch, WhileLoop
from wrapper_ir.ir.ops.debug import DebugOp
from wrapper_ir.ir.ops.kernel import CallExtern, KernelOp, Launch
from wrapper_ir.ir.ops.memory import AllocStorage, Drop, Free, MemoryOp, ResizeStorage, SetStorage, Slot
from wrapper_ir.ir.ops.placement import PlacementOp
from wrapper_ir.ir.ops.scope import EnterMemoryPool, ScopeOp
from wrapper_ir.ir.ops.spec import OpSet
from wrapper_ir.ir.ops.symbolic import Define
from wrapper_ir.ir.ops.view import View

Op = (
    MemoryOp | View | KernelOp | Define | CheckOp | ControlOp | PlacementOp | ScopeOp | CollectiveOp | DebugOp
)

OPS = OpSet(get_args(Op))
"""The specs of all ops, in the order of the union."""

CallingOp = CallSubgraph | Switch | WhileLoop
"""Ops that call functions of the program."""
OperatorCall = CallExtern | CollectiveStart
"""Ops that call an operator of a library by its schema."""
OutsideCall = Launch | OperatorCall
"""Ops that run code outside the program: a kernel or an operator (`callee_name`)."""
Allocation = AllocStorage | Slot
"""Ops that provide uninitialised or zeroed memory."""
EndOp = Drop | Free
"""Ops that end a lifetime and have no other effect."""
ForeignMemory = EnterMemoryPool | ResizeStorage | SetStorage
"""Ops that move memory out of the planner's control: to a shared pool, another size or another storage."""
