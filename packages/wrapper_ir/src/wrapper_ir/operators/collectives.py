"""Collectives that have a form which is finished when it returns.

A functional collective is started by one operator and waited for by another, each through torch's dispatcher, with a table of
what is in flight between them. Where nothing else is queued between the two, one call of the process group does the same:
`wrapper_ir_torch.finished_collective` has it for each name here, and a test compares the two.
"""

from __future__ import annotations

_NAMES = """
    all_gather_into_tensor all_gather_into_tensor_coalesced all_gather_into_tensor_out all_reduce all_reduce_
    all_reduce_coalesced all_reduce_coalesced_ all_to_all_single broadcast broadcast_ reduce_scatter_tensor
    reduce_scatter_tensor_coalesced reduce_scatter_tensor_out
"""

FINISHABLE = frozenset(f"_c10d_functional::{name}" for name in _NAMES.split())
"""The operators, by name."""
