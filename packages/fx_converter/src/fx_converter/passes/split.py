"""Graphs in parts that run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from torch import fx
from torch.fx.passes.split_module import split_module

from fx_converter import targets
from fx_converter.origin import KEY


def split(module: fx.GraphModule, part_of: Callable[[fx.Node], Hashable]) -> fx.GraphModule:
    """A module that calls submodules `submod_0`, `submod_1`, ... one after the other: nodes that follow each other and for
    which `part_of` gives the same are a part.

    Torch's `split_module` orders parts by the values that pass between them, and so may run one that reads memory before the
    one that writes it; it also drops the calling convention, and calls of parts that return nothing look dead. Here the order
    stays, calls of parts with effects are kept by `eliminate_dead_code`, and the result is called as `module`.
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
    made = split_module(whole, whole, numbers.__getitem__)
    for part_module in made.children():
        if isinstance(part_module, fx.GraphModule) and _has_effects(part_module):
            vars(part_module)["_is_impure"] = True  # for this torch asks modules that are called
    return with_convention(made, module)


def _token(graph: fx.Graph, before: fx.Node | None, numbers: dict[fx.Node, int], part: int) -> fx.Node:
    made = graph.call_function(targets.follow, () if before is None else (before,))
    made.meta["val"] = 0
    numbers[made] = part
    return made


def _has_effects(module: fx.GraphModule) -> bool:
    nodes = (node for node in module.graph.nodes if node.op not in ("placeholder", "output"))
    return any(node.is_impure() for node in nodes)


def with_convention(changed: fx.GraphModule, module: fx.GraphModule) -> fx.GraphModule:
    """`changed`, which a pass made of `module` and which has its inputs and outputs, called as `module` is: passes that
    make a new graph leave flat values behind. It also remembers where it comes from."""
    changed.graph.set_codegen(module.graph._codegen)
    changed.recompile()
    if KEY in module.meta:
        changed.meta[KEY] = module.meta[KEY]
    return changed
