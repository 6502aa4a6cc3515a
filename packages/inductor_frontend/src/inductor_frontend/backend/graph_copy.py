"""Copies of a graph and of the state of its symbols, from which later changes can be undone."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableSet
from typing import TYPE_CHECKING, Any

from torch import fx

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

# Any in this file: attributes of graphs, and torch's untyped ShapeEnv.

_COUNTERS = ("_version_counter", "_replacements_version_counter")
"""Counters that must never decrease: torch memoizes results under their values."""


class GraphCopy:
    """A copy of a graph module: its nodes with metadata, and the tensors and graphs that they name. Tensors
    are shared.

    Inductor's passes change graphs in place. The copy has no generated code until `make` writes it, once.
    """

    def __init__(self, gm: fx.GraphModule) -> None:
        self._graph = copy.deepcopy(gm.graph)  # copies nodes, not the values in their metadata
        self._name = type(gm).__name__
        self._meta = dict(gm.meta)
        self._symbols = {"shape_env": gm.shape_env} if hasattr(gm, "shape_env") else {}
        self._attributes: Mapping[str, object] = {name: _copied(_attribute(gm, name)) for name in _named(gm)}

    def make(self) -> fx.GraphModule:
        """Creates the graph module. Call it once: the caller may change the module."""
        attributes = {
            name: value.make() if isinstance(value, GraphCopy) else value
            for name, value in self._attributes.items()
        }
        gm = fx.GraphModule(attributes, self._graph, self._name)
        gm.meta.update(self._meta)
        vars(gm).update(self._symbols)  # autograd stores it there
        return gm


def _named(gm: fx.GraphModule) -> dict[str, None]:
    """Returns the attributes that the nodes of a graph name, in the order of the nodes."""
    return dict.fromkeys(str(n.target) for n in gm.graph.nodes if n.op in ("get_attr", "call_module"))


def _attribute(gm: fx.GraphModule, path: str) -> object:
    value: object = gm
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _copied(value: object) -> object:
    return GraphCopy(value) if isinstance(value, fx.GraphModule) else value


class SymbolSnapshot:
    """A snapshot of a ShapeEnv: symbols, ranges, replacements, guards, deferred assertions. Empty if `env` is
    None."""

    def __init__(self, env: ShapeEnv | None) -> None:
        self._env = env
        self._state = {} if env is None else {name: _plain_copy(value) for name, value in vars(env).items()}

    @property
    def guards(self) -> int:
        """The number of guards at the time of the snapshot."""
        return len(self._state.get("guards", ()))

    def restore(self) -> None:
        """Restores the ShapeEnv to the snapshot. Its tables stay the same objects, since other objects share
        them."""
        for name, value in self._state.items():
            now = getattr(self._env, name)
            match value:
                case dict():
                    now.clear()
                    now.update(_plain_copy(value))
                case list():
                    now[:] = value
                case MutableSet():  # includes torch's OrderedSet
                    now.clear()
                    now |= value
                case int() if name not in _COUNTERS:
                    vars(self._env)[name] = value
                case _:
                    pass
        if self._env is not None:
            self._env._update_version_counter()


def _plain_copy(value: object) -> Any:
    """Copies a table and the lists in it; returns any other value unchanged."""
    if isinstance(value, dict):
        copied = copy.copy(value)
        copied.update({key: item[:] for key, item in value.items() if isinstance(item, list)})
        return copied
    return copy.copy(value) if isinstance(value, (list, MutableSet)) else value
