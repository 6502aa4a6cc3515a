"""Lines of graph modules with the op that each is written for."""

from __future__ import annotations

from torch import fx

from fx_converter.graph.scope import ORIGIN
from wrapper_ir.plugins.emitted import EmittedText, LineOrigin

_ARGUMENTS = LineOrigin(note="arguments: their checks, sizes and device")
_ATTRIBUTES = LineOrigin(note="the function, and the attributes of its module")


def node_origin(node: fx.Node) -> LineOrigin:
    """Returns the origin of a node. A node that a later pass added has none."""
    origin = node.meta.get(ORIGIN)
    if isinstance(origin, LineOrigin):
        return origin
    return LineOrigin(note=f"argument %{node.meta['value']}") if node.op == "placeholder" else _ARGUMENTS


def module_text(module: fx.GraphModule, name: str) -> EmittedText:
    """Returns the text of a module's `forward` (`GraphModule.code`) under the file name `name`."""
    code = module.graph.python_code("self")
    nodes, numbers = list(module.graph.nodes), code._lineno_map or {}
    origins: list[LineOrigin | None] = []
    for at, line in enumerate(code.src.removesuffix("\n").split("\n"), 1):
        number = numbers.get(at - code._prologue_start)
        is_code = bool(line.strip()) and not line.lstrip().startswith("#")
        origin = _ATTRIBUTES if number is None else node_origin(nodes[number])
        origins.append(origin if is_code else None)
    return EmittedText(name=name, text=code.src, origins=tuple(origins))
