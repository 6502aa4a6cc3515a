"""Inputs whose storage a model resizes.

torch functionalizes writes, but keeps the operator that resizes a storage: it then resizes the storage of the
value that was written last. Sharded training allocates the memory of a parameter for each use:

    storage = parameter.untyped_storage()
    storage.resize_(n); parameter.copy_(shard); use(parameter); storage.resize_(0)

torch would free the memory of `shard`, then copy into freed memory. `lend` makes such a graph compute with a
separate tensor, before torch processes it. `record/resizes.py` refuses all other resizes whose effect would
be lost.
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
    """Returns `gm`, or a copy in which inputs without memory before and after the call are not resized.

    `inputs` are examples of the graph's inputs.
    """
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
    """Replaces the uses of an input by a clone, and keeps only the last resize.

    torch removes the clone if all of it is written before it is read, as eager mode requires too. The last
    resize frees the input's memory if a later call passes an input with memory.
    """
    *earlier, last = (user for user in sorted(source.users) if user.target in _RESIZES)
    for user in earlier:
        graph.erase_node(user)
    with graph.inserting_after(graph.find_nodes(op="placeholder")[-1]):
        own = graph.call_function(_ATEN.clone.default, (source,))
    own.meta = dict(source.meta)
    source.replace_all_uses_with(own, delete_user_cb=lambda user: user not in (own, last))
