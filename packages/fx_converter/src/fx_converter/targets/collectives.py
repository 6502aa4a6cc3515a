"""Collectives that are complete on return: one call of the process group. Traces contain the operators that
start them and wait."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fx_converter._compat import has_effect
from fx_converter.nodes import Target
from wrapper_ir_torch import finished_collective

_NAMESPACE = "_c10d_functional"


def _named(name: str) -> Target:
    """Returns a collective with the name that graphs print and files store."""
    function = finished_collective(f"{_NAMESPACE}::{name}")
    function.__name__ = function.__qualname__ = f"finished_{name}"
    function.__module__ = __name__
    return has_effect(function)


finished_all_gather_into_tensor = _named("all_gather_into_tensor")
finished_all_gather_into_tensor_coalesced = _named("all_gather_into_tensor_coalesced")
finished_all_gather_into_tensor_out = _named("all_gather_into_tensor_out")
finished_all_reduce = _named("all_reduce")
finished_all_reduce_ = _named("all_reduce_")
finished_all_reduce_coalesced = _named("all_reduce_coalesced")
finished_all_reduce_coalesced_ = _named("all_reduce_coalesced_")
finished_all_to_all_single = _named("all_to_all_single")
finished_broadcast = _named("broadcast")
finished_broadcast_ = _named("broadcast_")
finished_reduce_scatter_tensor = _named("reduce_scatter_tensor")
finished_reduce_scatter_tensor_coalesced = _named("reduce_scatter_tensor_coalesced")
finished_reduce_scatter_tensor_out = _named("reduce_scatter_tensor_out")

_CALLS = (
    finished_all_gather_into_tensor,
    finished_all_gather_into_tensor_coalesced,
    finished_all_gather_into_tensor_out,
    finished_all_reduce,
    finished_all_reduce_,
    finished_all_reduce_coalesced,
    finished_all_reduce_coalesced_,
    finished_all_to_all_single,
    finished_broadcast,
    finished_broadcast_,
    finished_reduce_scatter_tensor,
    finished_reduce_scatter_tensor_coalesced,
    finished_reduce_scatter_tensor_out,
)
FINISHED_CALLS: Mapping[str, Target] = MappingProxyType(
    {f"{_NAMESPACE}::{call.__name__.removeprefix('finished_')}": call for call in _CALLS}
)
"""The functions, by the operator that each replaces."""
