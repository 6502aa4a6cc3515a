"""Registers only those patterns of Inductor's joint passes that a graph can match.

torch registers all patterns before the first graph of a process. That takes longer than all other passes on a
small graph: tracing and comparing the attention patterns alone takes 0.2 s. The omitted patterns are
registered when a graph needs them, including graphs that Inductor compiles itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch._inductor import config
from torch._ops import OpOverload
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

REQUIRED_OPERATORS: tuple[tuple[PatchPoint, OpOverload], ...] = (
    (ATTENTION_PATTERNS, torch.ops.aten.bmm.default),
    (PERMUTATION_PATTERNS, torch.ops.aten.randperm.default),
)
"""Functions that register patterns, with an operator that each of their patterns contains."""


@contextmanager
def patterns_as_needed() -> Iterator[None]:
    """Makes Inductor's joint passes skip the registration of patterns with an operator that their graph
    lacks.

    Matches are the same.
    """
    with replaced(JOINT_PASSES.by(joint_graph_passes=partial(_passes, JOINT_PASSES.own()))):
        yield


def _passes(plain: Callable[..., object], graph: GraphModule, *args: object, **kwargs: object) -> object:
    unneeded = _unneeded(graph)
    if not unneeded:
        return plain(graph, *args, **kwargs)
    register = partial(_register_without, unneeded, JOINT_PATTERNS.own())
    with replaced(JOINT_PATTERNS.by(lazy_init=register)):
        return plain(graph, *args, **kwargs)


def _unneeded(graph: GraphModule) -> tuple[Change, ...]:
    """Returns replacements of the registration functions that the graph does not need."""
    if config.joint_custom_pre_pass is not None:  # it may add any operator
        return ()
    present = {node.target for node in graph.graph.nodes if node.op == "call_function"}
    return tuple(
        point.by(**{point.names[0]: _nothing})
        for point, operator in REQUIRED_OPERATORS
        if operator not in present
    )


def _register_without(unneeded: tuple[Change, ...], register: Any, *args: object, **kwargs: object) -> object:
    """Registers the other kinds of patterns.

    torch caches the registration of each kind, and of all kinds together. The second cache is bypassed, so
    that the omitted kinds are registered on demand.
    """
    with replaced(*unneeded):
        return register.__wrapped__(*args, **kwargs)


def _nothing(*args: object, **kwargs: object) -> None:
    return None
