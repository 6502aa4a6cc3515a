"""FX graphs as canonical text: what is called, with what, on what kinds of tensors.

Two graphs are written. Dynamo's (`FUNCTION`): its nodes are numbered, since their names come from the user's own; only
torch's operators will do, since autograd traces through whatever Python code an operator has. Autograd's (`GRAPH`):
names and the facts of every intermediate are part of it, since the program is made from them, and operators of
libraries are opaque calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import fx

from inductor_frontend.cache.canonical import Writer
from inductor_frontend.cache.operators import NoCanonicalForm, is_operator, name_of, operator_text
from inductor_frontend.cache.tensors import constant_text, fake_text

# Facts about where a node came from; they decide nothing but the provenance that is shown.
_PROVENANCE = frozenset(
    {
        "creation_timestamp", "desc", "from_node", "fwd_nn_module_stack", "fwd_source_fn_stack", "grapharg",
        "nn_module_stack", "original_aten", "output_stack_traces", "seq_nr", "source_fn_stack", "stack_trace",
        "tensor_meta", "torch_fn", "dynamo_flat_name_to_original_fqn", "dynamo_compile_id", "backend_id",
    }
)  # fmt: skip

# What these do depends on how many bytes a storage has, which no key says.
_STORAGE = frozenset({"resize_", "resize_as_", "resize_storage_bytes_", "set_", "storage", "untyped_storage"})


@dataclass(frozen=True, slots=True)
class GraphKind:
    """How a graph is written. `ignored` are the facts of nodes left out, `own` whether only torch's operators pass,
    `named` whether names of nodes count."""

    ignored: frozenset[str]
    own: bool
    named: bool


FUNCTION = GraphKind(_PROVENANCE | {"example_value", "tensor_dict"}, own=True, named=False)
GRAPH = GraphKind(_PROVENANCE, own=False, named=True)


def graph_lines(gm: fx.GraphModule, kind: GraphKind) -> Iterator[str]:
    """The lines of a graph and of the graphs inside it. Raises NoCanonicalForm."""
    names = {n: n.name if kind.named else str(i) for i, n in enumerate(gm.graph.nodes)}
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
    if node.op == "placeholder" and not kind.named:
        return "placeholder "
    if node.op in ("call_method", "placeholder", "output"):
        return f"{node.op} {target}"
    raise NoCanonicalForm(f"a node that is a {node.op}")


def _meta(meta: Mapping[str, object], writer: Writer, kind: GraphKind) -> str:
    kept = sorted(meta.keys() - kind.ignored)
    return "".join(f" {key}={writer.text(meta[key])}" for key in kept)


def _attribute(gm: fx.GraphModule, node: fx.Node, kind: GraphKind) -> Iterator[str]:
    """What a get_attr node fetches: another graph, or a constant with its bytes."""
    assert isinstance(node.target, str)
    value: object = gm
    for part in node.target.split("."):
        value = getattr(value, part)
    if isinstance(value, fx.GraphModule):
        yield from graph_lines(value, kind)
    elif isinstance(value, torch.Tensor):
        yield f"{node.target if kind.named else ''} {constant_text(value)}"
    else:
        raise NoCanonicalForm(f"an attribute of type {type(value).__qualname__}")
