"""Preserves values from before a write, which Inductor's passes would otherwise read after it.

In a functional graph an input denotes its initial content, and a clone the content of its source. Inductor
removes clones that match their source, even if the source is overwritten before the clone is used, or by the
operator that uses it:

    t = x.clone(); x.copy_(y); y.copy_(t)    # y would receive its own old value
    x[1:] = x[:-1].clone()                   # would read elements that it has just written

Here the value is copied by a separate operator, which Inductor keeps.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._inductor.fx_passes.post_grad import same_meta
from torch._inductor.fx_utils import get_fake_args_kwargs
from torch._subclasses.fake_tensor import FakeTensorMode

from inductor_frontend.functionalize.views import is_view
from inductor_frontend.torch_patches._compat import removed_copy_of
from wrapper_ir_torch.graph_modules import graph_modules

_ATEN = torch.ops.aten

# Inductor computes these in place, on their first argument, if it can.
_IN_PLACE = frozenset(
    {
        _ATEN.as_strided_scatter.default,
        _ATEN.diagonal_scatter.default,
        _ATEN.index_put.default,
        _ATEN._unsafe_index_put.default,
        _ATEN.select_scatter.default,
        _ATEN.slice_scatter.default,
    }
)


def keep_old_values(gm: fx.GraphModule, fake_mode: FakeTensorMode) -> None:
    """Mutates a functional graph and its subgraphs, in which the only writes are consecutive copies to
    inputs."""
    for module in graph_modules(gm):
        _Keeper(module.graph, fake_mode).run()


class _Keeper:
    def __init__(self, graph: fx.Graph, fake_mode: FakeTensorMode) -> None:
        self._graph = graph
        self._fake_mode = fake_mode

    def run(self) -> None:
        first_write: dict[fx.Node, fx.Node] = {}
        for node in list(self._graph.nodes):
            if node.target is _ATEN.copy_.default:
                target, value, *_ = node.args
                write = first_write.get(_root(value))
                if write is not None and value < write:
                    self._keep(node, value, write)
                first_write.setdefault(_root(target), node)
            elif node.target in _IN_PLACE:
                base = _root(node.args[0])
                for value in dict.fromkeys(node.all_input_nodes):
                    if value is not node.args[0] and _root(value) is base:
                        self._keep(node, value, node)

    def _keep(self, user: fx.Node, value: fx.Node, before: fx.Node) -> None:
        """Replaces `value` in the arguments of `user` by a copy that is inserted in front of `before`."""
        with self._graph.inserting_before(before):
            copy = self._graph.call_function(_ATEN.lift_fresh_copy.default, (value,))
        copy.meta = dict(value.meta)
        with self._fake_mode:
            copy.meta["val"] = torch.clone(value.meta["val"])
        first, *rest = user.args
        user.args = (first, *fx.map_arg(tuple(rest), lambda n: copy if n is value else n))


def _root(node: fx.Node) -> fx.Node:
    """Returns the node whose memory this one shares after Inductor has removed views and copies."""
    while (source := _source(node)) is not None:
        node = source
    return node


def _source(node: fx.Node) -> fx.Node | None:
    """Returns the source of a view, or of a copy that Inductor removes."""
    if not is_view(node):
        return _copied(node)
    source = node.args[0]
    return source if isinstance(source, fx.Node) else None


def _copied(node: fx.Node) -> fx.Node | None:
    """Returns the source of a copy that Inductor removes, by Inductor's own rules."""
    copy = removed_copy_of(node)
    if copy is None:
        return None
    condition, source = copy
    if not isinstance(source, fx.Node):
        return None
    valid, args, kwargs = get_fake_args_kwargs(node)
    is_removed = valid and same_meta(node, source) and condition(*args, **kwargs)
    return source if is_removed else None
