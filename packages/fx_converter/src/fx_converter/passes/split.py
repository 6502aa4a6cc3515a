"""Splitting of graphs into parts that run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from torch import fx
from torch.fx.passes.split_module import split_module

from fx_converter import targets
from fx_converter.origin import KEY


def split(module: fx.GraphModule, part_of: Callable[[fx.Node], Hashable]) -> fx.GraphModule:
    """Returns a module that calls submodules `submod_0`, `submod_1`, ... in order. Consecutive nodes with
    equal `part_of` form a part.

    Torch's `split_module` orders parts by the values that pass between them, and may run a part that reads
    memory before the part that writes it. It also drops the calling convention, and dead code elimination
    removes calls of parts that return nothing. This function keeps the order of nodes, `eliminate_dead_code`
    keeps calls of parts with effects, and the result is called as `module`.
    """
    copied: dict[fx.Node, fx.Node] = {}
    graph = fx.Graph()
    result = graph.graph_copy(module.graph, copied)
    graph.output(result)
    numbers: dict[fx.Node, int] = {}
    last: Hashable = None
    token: fx.Node | None = None
    previous: fx.Node | None = None
    count = -1
    for node, copy in list(copied.items()):
        copy.meta = dict(node.meta)
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        part = part_of(node)
        if count < 0 or part != last:
            if previous is not None:
                with graph.inserting_after(previous):
                    token = _token(graph, token, numbers, count)
            count, last = count + 1, part
            if token is not None:
                with graph.inserting_before(copy):
                    token = _token(graph, token, numbers, count)
        numbers[copy] = count
        previous = copy
    whole = fx.GraphModule(module, graph)
    parts = split_module(whole, whole, numbers.__getitem__)
    for part_module in parts.children():
        if isinstance(part_module, fx.GraphModule) and _has_effects(part_module):
            vars(part_module)["_is_impure"] = True  # torch reads it from modules that are called
    return with_convention(parts, module)


def _token(graph: fx.Graph, before: fx.Node | None, numbers: dict[fx.Node, int], part: int) -> fx.Node:
    node = graph.call_function(targets.follow, () if before is None else (before,))
    node.meta["val"] = 0
    numbers[node] = part
    return node


def _has_effects(module: fx.GraphModule) -> bool:
    nodes = (node for node in module.graph.nodes if node.op not in ("placeholder", "output"))
    return any(node.is_impure() for node in nodes)


def with_convention(changed: fx.GraphModule, module: fx.GraphModule) -> fx.GraphModule:
    """Gives `changed`, which a pass created from `module` with the same inputs and outputs, the calling
    convention and origin of `module`. Passes that create a new graph leave flat values."""
    changed.graph.set_codegen(module.graph._codegen)
    changed.recompile()
    if KEY in module.meta:
        changed.meta[KEY] = module.meta[KEY]
    return changed
