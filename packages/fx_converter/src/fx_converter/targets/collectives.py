"""Collectives that are finished when they return: one call of the process group. Traced again, they are the operators that start
them and wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from fx_converter._compat import has_effect
from wrapper_ir_torch import finished_collective

_NAMESPACE = "_c10d_functional"


def _named(name: str) -> Callable[..., Any]:  # Any: one tensor or several
    """What graphs print, and files name."""
    made = finished_collective(f"{_NAMESPACE}::{name}")
    made.__name__ = made.__qualname__ = f"finished_{name}"
    made.__module__ = __name__
    return has_effect(made)


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
FINISHED_CALLS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {f"{_NAMESPACE}::{call.__name__.removeprefix('finished_')}": call for call in _CALLS}
)
"""By the operator that each stands for."""
