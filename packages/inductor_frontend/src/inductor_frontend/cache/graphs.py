"""Canonical text of FX graphs: calls, arguments, and the metadata of tensors.

Two kinds of graphs are written. Dynamo's (`FUNCTION`): nodes are numbered, since their names derive from the
user's names. Only torch's operators are accepted, since autograd traces through the Python code of an
operator. Autograd's (`GRAPH`): names and the metadata of every intermediate are included, since the program
is built from them. Operators of libraries are opaque calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter

import torch
from torch import fx

from inductor_frontend.cache.canonical import Writer
from inductor_frontend.cache.operators import NoCanonicalForm, is_operator, name_of, operator_text
from inductor_frontend.cache.tensors import constant_text, fake_text

# Metadata about the origin of a node, which affects only the provenance in logs.
_PROVENANCE = frozenset(
    {
        "creation_timestamp", "desc", "from_node", "fwd_nn_module_stack", "fwd_source_fn_stack", "grapharg",
        "nn_module_stack", "original_aten", "output_stack_traces", "seq_nr", "source_fn_stack", "stack_trace",
        "tensor_meta", "torch_fn", "dynamo_flat_name_to_original_fqn", "dynamo_compile_id", "backend_id",
    }
)  # fmt: skip

# The effect of these depends on the number of bytes of a storage, which is not part of a key.
_STORAGE = frozenset({"resize_", "resize_as_", "resize_storage_bytes_", "set_", "storage", "untyped_storage"})


@dataclass(frozen=True, slots=True)
class GraphKind:
    """The format of a graph's text.

    `ignored`: keys of node metadata that are omitted. `own`: whether only torch's operators are accepted.
    `names`: whether the names of nodes are included.
    """

    ignored: frozenset[str]
    own: bool
    names: bool


FUNCTION = GraphKind(_PROVENANCE | {"example_value", "tensor_dict"}, own=True, names=False)
GRAPH = GraphKind(_PROVENANCE, own=False, names=True)


def graph_lines(gm: fx.GraphModule, kind: GraphKind) -> Iterator[str]:
    """Yields the lines of a graph and of its nested graphs. Raises NoCanonicalForm."""
    names = {n: n.name if kind.names else str(i) for i, n in enumerate(gm.graph.nodes)}
    writer = Writer(names, fake_text, own=kind.own)
    if type(gm.graph._codegen) is not fx.graph.CodeGen:
        raise NoCanonicalForm(f"a graph with its own {type(gm.graph._codegen).__name__}")
    yield f"graph training {gm.training}{_meta(gm.meta, writer, kind)}"
    for node in gm.graph.nodes:
        facts = _meta(node.meta, writer, kind)
        if node.op == "get_attr":
            yield f"%{names[node]} = attribute{facts}"
            yield from _attribute(gm, node, kind)
        else:
            kwargs = dict(sorted(node.kwargs.items()))
            arguments = f"{writer.text(node.args)}{writer.text(kwargs) if kwargs else ''}"
            yield f"%{names[node]} = {_target(node, kind)}{arguments}{facts}"
    yield "end"


def _target(node: fx.Node, kind: GraphKind) -> str:
    target = node.target
    if kind is FUNCTION and _STORAGE & set(str(target).split(".")):
        raise NoCanonicalForm(f"an operation on storages, {target}")
    if node.op == "call_function":
        return operator_text(target, own=kind.own) if is_operator(target) else name_of(target)
    if node.op == "placeholder" and not kind.names:
        return "placeholder "
    if node.op in ("call_method", "placeholder", "output"):
        return f"{node.op} {target}"
    raise NoCanonicalForm(f"a node that is a {node.op}")


def _meta(meta: Mapping[str, object], writer: Writer, kind: GraphKind) -> str:
    keys = sorted(meta.keys() - kind.ignored)
    return "".join(f" {key}={writer.text(meta[key])}" for key in keys)


def _attribute(gm: fx.GraphModule, node: fx.Node, kind: GraphKind) -> Iterator[str]:
    """Yields the lines of a get_attr node: a nested graph, or a constant with its bytes."""
    value: object = attrgetter(str(node.target))(gm)
    match value:
        case fx.GraphModule():
            yield from graph_lines(value, kind)
        case torch.Tensor():
            yield f"{node.target if kind.names else ''} {constant_text(value)}"
        case _:
            raise NoCanonicalForm(f"an attribute of type {type(value).__qualname__}")
