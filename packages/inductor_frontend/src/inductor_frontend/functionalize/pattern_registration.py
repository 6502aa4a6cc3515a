"""Inductor's joint passes register only those patterns that a graph can hold.

Torch registers all of them before the first graph of a process, which takes longer than all other passes over a small graph: those of
attention alone are traced and compared for a fifth of a second. What is left out here is registered when a graph needs it, ours or
torch's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch._inductor import config
from torch.fx import GraphModule

from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import (
    ATTENTION_PATTERNS,
    JOINT_PASSES,
    JOINT_PATTERNS,
    PERMUTATION_PATTERNS,
    Change,
    PatchPoint,
)

# Any in this file: operators, and what torch passes to its own functions.

REQUIRED_OPERATORS: tuple[tuple[PatchPoint, Any], ...] = (
    (ATTENTION_PATTERNS, torch.ops.aten.bmm.default),
    (PERMUTATION_PATTERNS, torch.ops.aten.randperm.default),
)
"""What registers patterns, and the operator that is part of every one of them."""


@contextmanager
def patterns_as_needed() -> Iterator[None]:
    """While the context is active, Inductor's joint passes leave out the registration of patterns that need an operator which their
    graph does not have. Matches are the same."""
    with replaced(JOINT_PASSES.by(joint_graph_passes=partial(_passes, JOINT_PASSES.own()))):
        yield


def _passes(plain: Callable[..., Any], graph: GraphModule, *args: Any, **kwargs: Any) -> Any:
    unneeded = _unneeded(graph)
    if not unneeded:
        return plain(graph, *args, **kwargs)
    register = partial(_register_without, unneeded, JOINT_PATTERNS.own())
    with replaced(JOINT_PATTERNS.by(lazy_init=register)):
        return plain(graph, *args, **kwargs)


def _unneeded(graph: GraphModule) -> tuple[Change, ...]:
    """Replacements that register nothing, of what the graph does not need."""
    if config.joint_custom_pre_pass is not None:  # it may add any operator
        return ()
    present = {node.target for node in graph.graph.nodes if node.op == "call_function"}
    return tuple(
        point.by(**{point.names[0]: _nothing})
        for point, operator in REQUIRED_OPERATORS
        if operator not in present
    )


def _register_without(unneeded: tuple[Change, ...], register: Any, *args: Any, **kwargs: Any) -> Any:
    """Registers the other kinds. Torch remembers for each kind that it is registered, and for all of them together; the second is left
    as it is, so that the rest is registered when somebody asks for it."""
    with replaced(*unneeded):
        return register.__wrapped__(*args, **kwargs)


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None
