"""The standard passes of torch.fx."""

from __future__ import annotations

import copy
from collections.abc import Callable

from torch import fx
from torch.fx.passes.split_utils import split_by_tags

from fx_converter import passes

Pass = Callable[[fx.GraphModule], fx.GraphModule]


def dead_code(module: fx.GraphModule) -> fx.GraphModule:
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def merged(module: fx.GraphModule) -> fx.GraphModule:
    passes.cse(module)
    module.graph.lint()
    return module


def folded(module: fx.GraphModule) -> fx.GraphModule:
    passes.fold_constants(module)
    module.graph.lint()
    return module


def parts(module: fx.GraphModule) -> fx.GraphModule:
    """Splits into parts of three calls each, then eliminates dead code."""
    calls = [n for n in module.graph.nodes if n.op not in ("placeholder", "get_attr", "output")]
    part = {node: number // 3 for number, node in enumerate(calls)}
    return dead_code(passes.split(module, part.__getitem__))


def transformed(module: fx.GraphModule) -> fx.GraphModule:
    return fx.Transformer(module).transform()


def copied(module: fx.GraphModule) -> fx.GraphModule:
    return dead_code(copy.deepcopy(module))


def again(module: fx.GraphModule) -> fx.GraphModule:
    return dead_code(fx.GraphModule(module, module.graph))


def tagged(module: fx.GraphModule) -> fx.GraphModule:
    """Torch's splitter by tags, in the graph's order."""
    calls = [n for n in module.graph.nodes if n.op not in ("placeholder", "get_attr", "output")]
    for number, node in enumerate(calls):
        node.tag = f"part_{number // 4}"
    made = split_by_tags(module, list(dict.fromkeys(node.tag for node in calls)))
    assert isinstance(made, fx.GraphModule)
    return made


PASSES: dict[str, Pass] = {
    "dead_code": dead_code, "cse": merged, "fold": folded, "split": parts, "transformer": transformed, "deepcopy": copied,
    "graph_module": again,
}  # fmt: skip
