"""Common subexpression elimination in graphs that write memory."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import fx

from fx_converter.nodes import Argument
from fx_converter.passes.calls import CallKind, is_number, is_tensor, kind_of
from fx_converter.passes.memory import Memory
from wrapper_ir_torch.graph_modules import graph_modules

_PLAIN = (bool, int, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def cse(module: fx.GraphModule) -> bool:
    """Merges equal calls, in the module and in the graph modules within it; returns whether anything changed.

    A call is replaced by an earlier one of the same function with the same arguments if no memory that either
    reads may have been written in between, and if the two results cannot be distinguished. Calls that
    allocate, write, draw random numbers, check, communicate, or are ordered by streams are not merged. The
    calling convention and the output structure of the module do not change. The time is linear in the number
    of nodes.
    """
    changed = False
    for each in graph_modules(module):
        if _Merger(each.graph).run():
            each.recompile()
            changed = True
    return changed


class _Merger:
    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._memory = Memory(graph)
        self._versions: dict[fx.Node | None, int] = {}
        """The number of possible writes to each storage so far."""
        self._region = 0
        """Changes with the current device and stream."""
        self._earlier: dict[Hashable, fx.Node] = {}

    def run(self) -> bool:
        """Merges calls; returns whether anything changed."""
        changed = False
        for node in list(self._graph.nodes):
            kind = kind_of(node)
            key = self._key(node, kind)
            if key is not None:
                earlier = self._earlier.setdefault(key, node)
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
        """Returns a key that mergeable calls have in common; None for a call that is not merged."""
        if kind in (CallKind.OTHER, CallKind.ORDER) or node.is_impure():
            return None
        if any(self._memory.is_resized_or_set(x) for x in node.all_input_nodes):
            return None
        try:
            arguments = _comparable(node.args), _comparable({**node.kwargs})
        except TypeError:  # an argument that cannot be compared
            return None
        if kind is not CallKind.BYTES:
            return node.target, arguments
        groups = [self._memory.group(x) for x in node.all_input_nodes]
        return node.target, arguments, self._region, tuple(self._versions.get(group, 0) for group in groups)

    def _is_same(self, node: fx.Node, earlier: fx.Node, kind: CallKind) -> bool:
        """Returns whether two results cannot be distinguished: of tensors with separate storages, neither is
        written, and at most one is returned."""
        memory = self._memory
        if kind is CallKind.BYTES and not is_number(node):
            if memory.is_written(node) or memory.is_written(earlier):
                return False
            return not (memory.is_given(node) and memory.is_given(earlier))
        return not (is_tensor(node) and {node, earlier} <= memory.returned)


def _comparable(arg: Argument) -> Hashable:
    """Converts an argument to a key that distinguishes 1, 1.0 and True, and 0.0 and -0.0. Raises TypeError
    for arguments that cannot be compared."""
    match arg:
        case fx.Node():
            return arg
        case float() | complex():
            return type(arg), repr(arg)
        case list() | tuple():
            return type(arg), tuple(map(_comparable, arg))
        case dict():
            return dict, tuple((_comparable(k), _comparable(arg[k])) for k in sorted(arg))
        case slice():
            return slice, _comparable(arg.start), _comparable(arg.stop), _comparable(arg.step)
        case _ if type(arg) in _PLAIN:
            return type(arg), arg
        case _:
            raise TypeError(type(arg).__name__)
