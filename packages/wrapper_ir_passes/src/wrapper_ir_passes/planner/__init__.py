"""Placing buffers in memory: offsets for buffers with lifetimes, and which buffers share a pool.

Numbers only: no program, no ops. `wrapper_ir_passes.memory.plan_memory.PlanMemory` makes buffers of storages, and slots of places.
"""

# Every module's own `__all__` says what is public; naming it here again would be a second list.
from wrapper_ir_passes.planner.buffers import *
from wrapper_ir_passes.planner.exact import *
from wrapper_ir_passes.planner.greedy import *
from wrapper_ir_passes.planner.order import *
from wrapper_ir_passes.planner.pools import *
from wrapper_ir_passes.planner.search import *
