"""Storages of inputs that a model resizes.

Torch makes writes functional, but leaves the operator that resizes a storage as it stands: it then resizes whatever
holds the value that was written last. Sharded training gives a parameter memory for the time of each use:

    parameter.untyped_storage().resize_(n); parameter.copy_(shard); use(parameter); parameter.untyped_storage().resize_(0)

and torch would take the memory of `shard`, then copy into memory that is no longer there. `lend` lets such a graph
compute with a tensor of its own, before torch sees it; `record/resizes.py` refuses what is lost otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from inductor_frontend.export.subclasses import is_wrapper

_ATEN = torch.ops.aten
_RESIZE = torch.ops.inductor.resize_storage_bytes_.default
_RESIZES = (_RESIZE, torch.ops.inductor.resize_storage_bytes_)  # Dynamo names no overload


def lend(gm: fx.GraphModule, inputs: Sequence[object]) -> fx.GraphModule:
    """`gm`, or a changed copy in which inputs that have no memory before and after the call stay without; `inputs` are
    examples of them."""
    if not any(n.target in _RESIZES for n in gm.graph.nodes):
        return gm
    graph = fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    for node, value in zip(graph.find_nodes(op="placeholder"), inputs, strict=True):
        if _is_empty(value) and _has_memory_for_a_while(node):
            _compute_apart(graph, node)
    return fx.GraphModule(gm, graph)


def _is_empty(value: object) -> bool:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return False
    return not is_wrapper(value) and value.untyped_storage().nbytes() == 0


def _has_memory_for_a_while(source: fx.Node) -> bool:
    users = sorted(source.users)
    if len(users) < 2 or users[0].target not in _RESIZES or users[-1].target not in _RESIZES:
        return False
    return bool(users[-1].args[1] == 0)


def _compute_apart(graph: fx.Graph, source: fx.Node) -> None:
    """Torch removes the copy where all of it is written before it is read, as it must be in eager mode, too. The
    input still ends up without memory, should a later call pass one that has some."""
    *earlier, last = (user for user in sorted(source.users) if user.target in _RESIZES)
    for user in earlier:
        graph.erase_node(user)
    with graph.inserting_after(graph.find_nodes(op="placeholder")[-1]):
        own = graph.call_function(_ATEN.clone.default, (source,))
    own.meta = dict(source.meta)
    source.replace_all_uses_with(own, delete_user_cb=lambda user: user not in (own, last))
