"""Places buffers in memory: offsets for buffers with lifetimes, and pools.

It handles only numbers, not programs. `wrapper_ir_passes.memory.plan_memory.PlanMemory` turns storages into
buffers, and offsets into slots.
"""

from wrapper_ir_passes.planner.buffers import (
    Buffer,
    Placement,
    check_placement,
    height,
    least_height,
    live_bytes,
    peak_bytes,
    read_csv,
    write_csv,
)
from wrapper_ir_passes.planner.exact import Found, exact
from wrapper_ir_passes.planner.greedy import best_fit, by_area, by_size
from wrapper_ir_passes.planner.order import OrderProblem, SharedBuffer, Task, lower_peak, peaks
from wrapper_ir_passes.planner.pools import Pool, held_bytes, plan_pools
from wrapper_ir_passes.planner.search import PACKERS, Algorithm, Packer, SearchBudget, pack

__all__ = [
    "PACKERS",
    "Algorithm",
    "Buffer",
    "Found",
    "OrderProblem",
    "Packer",
    "Placement",
    "Pool",
    "SearchBudget",
    "SharedBuffer",
    "Task",
    "best_fit",
    "by_area",
    "by_size",
    "check_placement",
    "exact",
    "height",
    "held_bytes",
    "least_height",
    "live_bytes",
    "lower_peak",
    "pack",
    "peak_bytes",
    "peaks",
    "plan_pools",
    "read_csv",
    "write_csv",
]
