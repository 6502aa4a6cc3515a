"""Functions that graphs call where torch has no operator for an op.

They are plain Python over operators, so that tracing a graph again sees what is inside them.
"""

# `__all__` below names what is public; what modules export beyond it they export to each other.
from fx_converter.targets.checks import *
from fx_converter.targets.collectives import *
from fx_converter.targets.control import *
from fx_converter.targets.debug import *
from fx_converter.targets.memory import *
from fx_converter.targets.placement import *
from fx_converter.targets.symbolic import *

__all__ = [
    "align",
    "assert_alignment",
    "assert_expr",
    "assert_finite",
    "assert_layout",
    "barrier",
    "both",
    "check_agreement",
    "check_groups",
    "check_inputs",
    "check_result",
    "check_storages",
    "choose",
    "comment",
    "cond_effect",
    "either",
    "enter_device",
    "enter_memory_pool",
    "enter_profile",
    "enter_stream",
    "exit_device",
    "exit_scope",
    "exit_stream",
    "fill_zero",
    "finished_all_gather_into_tensor",
    "finished_all_gather_into_tensor_coalesced",
    "finished_all_gather_into_tensor_out",
    "finished_all_reduce",
    "finished_all_reduce_",
    "finished_all_reduce_coalesced",
    "finished_all_reduce_coalesced_",
    "finished_all_to_all_single",
    "finished_broadcast",
    "finished_broadcast_",
    "finished_reduce_scatter_tensor",
    "finished_reduce_scatter_tensor_coalesced",
    "finished_reduce_scatter_tensor_out",
    "follow",
    "free",
    "int64",
    "invoke_effect",
    "loop_effect",
    "partial_call",
    "power",
    "record_event",
    "replay",
    "replay_effect",
    "resize_storage",
    "same",
    "save_tensor",
    "show_line",
    "show_number",
    "show_tensor",
    "stacked_effect",
    "stacked_loop",
    "switch",
    "switch_effect",
    "sync_event",
    "total_call",
    "truth",
    "unshared",
    "wait_event",
    "window",
]
