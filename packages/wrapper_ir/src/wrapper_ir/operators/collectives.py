"""Collectives with a synchronous form.

A functional collective takes two calls through torch's dispatcher, to start and to wait, and a table of
collectives in flight. If nothing is queued in between, one call of the process group has the same effect:
`wrapper_ir_torch.finished_collective` implements it for each name here, and a test compares the two.
"""

from __future__ import annotations

_NAMES = """
    all_gather_into_tensor all_gather_into_tensor_coalesced all_gather_into_tensor_out all_reduce all_reduce_
    all_reduce_coalesced all_reduce_coalesced_ all_to_all_single broadcast broadcast_ reduce_scatter_tensor
    reduce_scatter_tensor_coalesced reduce_scatter_tensor_out
"""

FINISHABLE = frozenset(f"_c10d_functional::{name}" for name in _NAMES.split())
"""The operators, by name."""
