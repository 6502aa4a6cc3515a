"""The closed set of ops, one file a family.

`Op` is the union that every consumer must handle completely: with `match` ending in `assert_never`, or with a
table that a test compares with `OPS`. An op's class says everything that is mechanical about it; `wrapper_ir.ir.ops.spec`
reads it.
"""

from __future__ import annotations

from typing import get_args

from wrapper_ir.ir.ops.check import CheckOp
from wrapper_ir.ir.ops.collective import CollectiveOp, CollectiveStart
from wrapper_ir.ir.ops.control import CallSubgraph, ControlOp, Switch, WhileLoop
from wrapper_ir.ir.ops.debug import DebugOp
from wrapper_ir.ir.ops.kernel import CallExtern, KernelOp
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
Allocation = AllocStorage | Slot
"""Ops that provide uninitialised or zeroed memory."""
EndOp = Drop | Free
"""Ops that end lifetimes and do nothing else."""
ForeignMemory = EnterMemoryPool | ResizeStorage | SetStorage
"""Ops after which memory belongs to a pool or a size that no plan knows."""
