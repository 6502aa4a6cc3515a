"""Finds the activation that a node's users compute: torch's decompositions as trees of operators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch._ops import OpOverload
from torch.fx import Node

_ATEN = torch.ops.aten
_COMMUTATIVE = (_ATEN.add.Tensor, _ATEN.mul.Tensor)


@dataclass(frozen=True, slots=True)
class _X:
    """The argument of the activation."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """A number, which becomes a bound of the activation."""

    name: str


@dataclass(frozen=True, slots=True)
class _Tree:
    """A call of an operator."""

    target: OpOverload
    args: Sequence[_Part]


_Part = _Tree | _X | _Bound | float
_LOW, _HIGH = _Bound("low"), _Bound("high")


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation, by a name of `ACTIVATIONS`: its result `node`, and all nodes of which it consists."""

    name: str
    node: Node
    nodes: frozenset[Node]
    low: float = 0.0
    high: float = 0.0


def _tree(target: OpOverload, *args: _Part) -> _Tree:
    return _Tree(target, args)


def _times(*args: _Part) -> _Tree:
    return _tree(_ATEN.mul.Tensor, *args)


def _plus(*args: _Part) -> _Tree:
    return _tree(_ATEN.add.Tensor, *args)


def _clamped(x: _Part, low: _Part, high: _Part) -> _Tree:
    return _tree(_ATEN.clamp_max.default, _tree(_ATEN.clamp_min.default, x, low), high)


_SIX = _clamped(_plus(_X(), 3.0), 0.0, 6.0)
_NORMAL = _plus(_tree(_ATEN.erf.default, _times(_X(), math.sqrt(0.5))), 1.0)
_EXP = _tree(_ATEN.exp.default, _tree(_ATEN.neg.default, _X()))
_TREES: Sequence[tuple[str, _Tree]] = (
    ("gelu", _times(_times(_X(), 0.5), _NORMAL)),
    ("hardswish", _tree(_ATEN.div.Tensor, _times(_X(), _SIX), 6.0)),
    ("silu", _tree(_ATEN.div.Tensor, _X(), _plus(_EXP, 1.0))),
    ("silu", _times(_X(), _tree(_ATEN.sigmoid.default, _X()))),
    ("clamp", _clamped(_X(), _LOW, _HIGH)),
    ("clamp", _tree(_ATEN.clamp.default, _X(), _LOW, _HIGH)),
    ("clamp", _tree(_ATEN.hardtanh.default, _X(), _LOW, _HIGH)),
    ("sigmoid", _tree(_ATEN.sigmoid.default, _X())),
    ("relu", _tree(_ATEN.relu.default, _X())),
    ("relu", _tree(_ATEN.clamp_min.default, _X(), 0.0)),
)
"""Larger trees first: a smaller one may be a part of them."""


def activation_of(x: Node) -> Activation | None:
    """Returns the activation that all users of a node are a part of; None if there is none."""
    for name, tree in _TREES:
        for root in _reachable(x, _depth(tree)):
            nodes: set[Node] = set()
            bounds: dict[str, float] = {}
            if _matches(root, tree, x, nodes, bounds) and _is_closed(x, root, nodes):
                return Activation(name, root, frozenset(nodes), **bounds)
    return None


def _depth(part: _Part) -> int:
    match part:
        case _Tree(_, args):
            return 1 + max(map(_depth, args))
        case _:
            return 0


def _reachable(x: Node, depth: int) -> Iterator[Node]:
    """Yields the nodes that are computed from `x` by this number of operators."""
    nodes = [x]
    for _ in range(depth):
        nodes = list(dict.fromkeys(user for node in nodes for user in node.users))
    yield from nodes


def _matches(value: object, part: _Part, x: Node, nodes: set[Node], bounds: dict[str, float]) -> bool:
    """Returns whether a value is computed as a tree says; collects its nodes and bounds."""
    match part, value:
        case _X(), _:
            return value is x
        case _Bound(name), int() | float():
            bounds[name] = float(value)
            return True
        case float(), int() | float():
            return math.isclose(value, part, rel_tol=1e-6)
        case _Tree(target, args), Node() if value.target == target and not value.kwargs:
            nodes.add(value)
            orders = [args, args[::-1]] if target in _COMMUTATIVE else [args]
            return len(value.args) == len(args) and any(
                all(_matches(v, p, x, nodes, bounds) for v, p in zip(value.args, order, strict=True))
                for order in orders
            )
        case _:
            return False


def _is_closed(x: Node, root: Node, nodes: set[Node]) -> bool:
    """Returns whether no other node reads the parts of an activation, and all have its element type."""
    inner = (x, *(node for node in nodes if node is not root))
    types = {node.meta["val"].dtype for node in (x, *nodes)}
    return len(types) == 1 and all(user in nodes for node in inner for user in node.users)
