"""Common subexpressions of graphs that write memory."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import fx

from fx_converter.passes.calls import CallKind, is_number, is_tensor, kind_of
from fx_converter.passes.memory import Memory

# Any in this file: arguments of nodes
_PLAIN = (bool, int, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def cse(module: fx.GraphModule) -> bool:
    """Computes equal things once, in the module and in the graph modules within it; returns whether anything changed.

    A call is replaced by an earlier one of the same function with the same arguments where nothing that either reads may
    have been written in between, and where nobody can tell the two results apart. Allocations stay apart, and so does all
    that writes, draws random numbers, checks, communicates, or is ordered by streams. The result has the calling convention
    and the output structure that the module had. Takes time linear in the nodes.
    """
    changed = False
    for each in module.modules():
        if isinstance(each, fx.GraphModule) and _Merger(each.graph).run():
            each.recompile()
            changed = True
    return changed


class _Merger:
    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._memory = Memory(graph)
        self._versions: dict[fx.Node | None, int] = {}
        """How often each storage may have been written up to here."""
        self._region = 0
        """Changes with the current device and stream."""
        self._seen: dict[Hashable, fx.Node] = {}

    def run(self) -> bool:
        """Whether anything was merged."""
        changed = False
        for node in list(self._graph.nodes):
            kind = kind_of(node)
            key = self._key(node, kind)
            if key is not None:
                earlier = self._seen.setdefault(key, node)
                if earlier is not node and self._is_same(node, earlier, kind):
                    node.replace_all_uses_with(earlier)
                    self._graph.erase_node(node)
                    changed = True
                    continue
            self._region += kind is CallKind.ORDER
            for group in {self._memory.group(x) for x in self._memory.writes(node)}:
                self._versions[group] = self._versions.get(group, 0) + 1
        return changed

    def _key(self, node: fx.Node, kind: CallKind) -> Hashable | None:
        """What two calls must have in common; None for one that stays as it is."""
        if kind in (CallKind.OTHER, CallKind.ORDER) or node.is_impure():
            return None
        if any(self._memory.is_resized_or_set(x) for x in node.all_input_nodes):
            return None
        try:
            said = _said(node.args), _said({**node.kwargs})
        except TypeError:  # an argument that cannot be compared
            return None
        if kind is not CallKind.BYTES:
            return node.target, said
        groups = [self._memory.group(x) for x in node.all_input_nodes]
        return node.target, said, self._region, tuple(self._versions.get(group, 0) for group in groups)

    def _is_same(self, node: fx.Node, earlier: fx.Node, kind: CallKind) -> bool:
        """Whether nobody can tell the two results apart: of tensors with storages of their own, neither is written, and
        the caller gets one of them at most."""
        memory = self._memory
        if kind is CallKind.BYTES and not is_number(node):
            if memory.is_written(node) or memory.is_written(earlier):
                return False
            return not (memory.is_given(node) and memory.is_given(earlier))
        return not (is_tensor(node) and {node, earlier} <= memory.returned)


def _said(arg: Any) -> Hashable:
    """An argument such that 1, 1.0 and True differ, and 0.0 and -0.0. Raises TypeError for what cannot be compared."""
    match arg:
        case fx.Node():
            return arg
        case float() | complex():
            return type(arg), repr(arg)
        case list() | tuple():
            return type(arg), tuple(map(_said, arg))
        case dict():
            return dict, tuple((_said(k), _said(arg[k])) for k in sorted(arg))
        case slice():
            return slice, _said(arg.start), _said(arg.stop), _said(arg.step)
        case _ if type(arg) in _PLAIN:
            return type(arg), arg
        case _:
            raise TypeError(type(arg).__name__)
