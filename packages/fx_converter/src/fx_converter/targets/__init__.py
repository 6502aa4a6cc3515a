"""Functions that graphs call where torch has no operator for an op.

They are plain Python over operators, so that tracing a graph again sees what is inside them.
"""

from fx_converter.targets.checks import assert_expr, assert_finite, assert_layout, check_groups
from fx_converter.targets.debug import comment, debug_value
from fx_converter.targets.loops import stacked_loop
from fx_converter.targets.memory import align, fill_zero, free, resize_storage, same, unshared, window
from fx_converter.targets.numbers import choose, partial_call, truth
from fx_converter.targets.streams import (
    enter_device,
    enter_stream,
    exit_device,
    exit_stream,
    record_event,
    sync_event,
    wait_event,
)

__all__ = [
    "align",
    "assert_expr",
    "assert_finite",
    "assert_layout",
    "check_groups",
    "choose",
    "comment",
    "debug_value",
    "enter_device",
    "enter_stream",
    "exit_device",
    "exit_stream",
    "fill_zero",
    "free",
    "partial_call",
    "record_event",
    "resize_storage",
    "same",
    "stacked_loop",
    "sync_event",
    "truth",
    "unshared",
    "wait_event",
    "window",
]
