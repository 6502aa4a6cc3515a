"""Placing buffers in memory: offsets for buffers with lifetimes, and which buffers share a pool.

Numbers only: no program, no ops. `wrapper_ir.passes.PlanMemory` makes buffers of storages, and slots of places.
"""

# Every module's own `__all__` says what is public; naming it here again would be a second list.
from wrapper_ir.planner.buffers import *
from wrapper_ir.planner.exact import *
from wrapper_ir.planner.greedy import *
from wrapper_ir.planner.order import *
from wrapper_ir.planner.pools import *
from wrapper_ir.planner.search import *
