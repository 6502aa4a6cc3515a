"""The closed set of ops, one file a family.

`Op` is the union that every consumer must handle completely: with `match` ending in `assert_never`, or with a
table that a test compares with `OPS`. An op's class says everything that is mechanical about it; `wrapper_ir.ops.spec`
reads it.
"""

from __future__ import annotations

from typing import get_args

from wrapper_ir.ops import (
    base,
    check,
    collective,
    control,
    debug,
    effects,
    kernel,
    memory,
    placement,
    scope,
    spec,
)
from wrapper_ir.ops import symbolic as symbolic_ops
from wrapper_ir.ops import view as view_ops

# Every family's own `__all__` says what is public; naming it here again would be a second list.
from wrapper_ir.ops.base import *  # noqa: F403
from wrapper_ir.ops.check import *  # noqa: F403
from wrapper_ir.ops.check import CheckOp
from wrapper_ir.ops.collective import *  # noqa: F403
from wrapper_ir.ops.collective import CollectiveOp
from wrapper_ir.ops.control import *  # noqa: F403
from wrapper_ir.ops.control import ControlOp
from wrapper_ir.ops.debug import *  # noqa: F403
from wrapper_ir.ops.debug import DebugOp
from wrapper_ir.ops.effects import *  # noqa: F403
from wrapper_ir.ops.kernel import *  # noqa: F403
from wrapper_ir.ops.kernel import KernelOp
from wrapper_ir.ops.memory import *  # noqa: F403
from wrapper_ir.ops.memory import MemoryOp
from wrapper_ir.ops.placement import *  # noqa: F403
from wrapper_ir.ops.placement import PlacementOp
from wrapper_ir.ops.scope import *  # noqa: F403
from wrapper_ir.ops.scope import ScopeOp
from wrapper_ir.ops.spec import *  # noqa: F403
from wrapper_ir.ops.spec import OpSet
from wrapper_ir.ops.symbolic import *  # noqa: F403
from wrapper_ir.ops.symbolic import Define
from wrapper_ir.ops.view import *  # noqa: F403
from wrapper_ir.ops.view import View

__all__ = ["OPS", "Op"]
__all__ += base.__all__
__all__ += check.__all__
__all__ += collective.__all__
__all__ += control.__all__
__all__ += debug.__all__
__all__ += effects.__all__
__all__ += kernel.__all__
__all__ += memory.__all__
__all__ += placement.__all__
__all__ += scope.__all__
__all__ += spec.__all__
__all__ += symbolic_ops.__all__
__all__ += view_ops.__all__

Op = (
    MemoryOp | View | KernelOp | Define | CheckOp | ControlOp | PlacementOp | ScopeOp | CollectiveOp | DebugOp
)

OPS = OpSet(get_args(Op))
"""The specs of all ops, in the order of the union."""
