"""Where ops come from: source nodes, operators, file:line and modules, read from FX node metadata."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

import torch
from torch import fx

from wrapper_ir import ir

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in [^\n]*\n +(?P<text>\S[^\n]*))?')
_TORCH_DIR = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


def _short(path: str, root: str) -> str:
    """A path that does not depend on the machine, where there is one: below `root`, or below site-packages."""
    _, marker, tail = path.rpartition(f"site-packages{os.sep}")
    if marker:
        return tail
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path


class ProvenanceReader:
    """Reads provenance of FX nodes, each node once. `root` is the folder that paths are shown relative to, `graph` the
    graph whose nodes are named: Inductor counts what calls a subgraph among the origins of all that is in it. `texts` has
    the text of each source line that was read, by `file:line`."""

    def __init__(self, root: str, graph: fx.Graph | None = None, texts: dict[str, str] | None = None) -> None:
        self.texts: dict[str, str] = {} if texts is None else texts
        self._root = root
        self._graph = graph
        self._known: dict[fx.Node, tuple[str, str, str]] = {}

    def within(self, graph: object) -> ProvenanceReader:
        """A reader that names the nodes of this graph only."""
        assert isinstance(graph, fx.Graph)
        return ProvenanceReader(self._root, graph, self.texts)

    def read(self, origins: Iterable[fx.Node], name: str) -> ir.Provenance:
        """The joint provenance of several source nodes, in their graph's order of creation; `name` is Inductor's."""
        nodes: dict[str, None] = {}
        facts: list[tuple[str, str, str]] = []
        origins = list(origins)
        for node in [n for n in origins if n.graph is self._graph] or origins:
            if node.op != "placeholder" and not _is_subgraph(node):
                nodes[node.name] = None
                facts.append(self._facts(node))
        if not facts:
            return ir.Provenance(frontend_name=name) if name else ir.UNKNOWN
        ops, locations, modules = (tuple(dict.fromkeys(x for x in column if x)) for column in zip(*facts))
        return ir.Provenance(
            nodes=tuple(nodes), ops=ops, locations=locations, modules=modules, frontend_name=name
        )

    def _facts(self, node: fx.Node) -> tuple[str, str, str]:
        """(operator, file:line, module path) of one node."""
        found = self._known.get(node)
        if found is None:
            found = (_operator(node), self.location(node.meta.get("stack_trace") or ""), _module(node))
            self._known[node] = found
        return found

    def location(self, trace: str) -> str:
        """The innermost place in a stack trace that is not torch's own, as file:line; '' for none."""
        # "<...>" are the functions of generated graphs, whose numbers differ from run to run
        frames = [m for m in _FRAME.finditer(trace) if not m["file"].startswith("<")]
        if not frames:
            return ""
        own = [m for m in frames if not m["file"].startswith(_TORCH_DIR)]
        frame = (own or frames)[-1]
        place = f"{_short(frame['file'], self._root)}:{frame['line']}"
        if frame["text"]:
            self.texts[place] = frame["text"].strip()
        return place


def _is_subgraph(node: fx.Node) -> bool:
    """Whether a node stands for a subgraph, not for something computed."""
    if node.op != "get_attr" or node.graph.owning_module is None:
        return False
    return isinstance(getattr(node.graph.owning_module, str(node.target), None), fx.GraphModule)


def _operator(node: fx.Node) -> str:
    original = node.meta.get("original_aten")
    return str(original if original is not None else node.target)


def _module(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    return path.removeprefix("L['self'].").removeprefix("L['fn'].")
