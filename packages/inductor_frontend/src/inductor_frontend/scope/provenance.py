"""Provenance of ops: source nodes, operators, file:line and modules, read from FX node metadata."""

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
    """Returns a path relative to site-packages or to `root`, which does not depend on the machine; else the
    path itself."""
    _, marker, tail = path.rpartition(f"site-packages{os.sep}")
    if marker:
        return tail
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path


class ProvenanceReader:
    """Reads provenance of FX nodes, once per node.

    Paths are relative to the folder `root`. Only nodes of `graph` are named, because Inductor includes the
    caller of a subgraph in the origins of its nodes. `texts` has the text of each source line that was read,
    by `file:line`.
    """

    def __init__(self, root: str, graph: fx.Graph | None = None, texts: dict[str, str] | None = None) -> None:
        self.texts: dict[str, str] = {} if texts is None else texts
        self._root = root
        self._graph = graph
        self._cache: dict[fx.Node, tuple[str, str, str]] = {}

    def within(self, graph: object) -> ProvenanceReader:
        """Returns a reader that names only nodes of this graph."""
        assert isinstance(graph, fx.Graph)
        return ProvenanceReader(self._root, graph, self.texts)

    def read(self, origins: Iterable[fx.Node], name: str) -> ir.Provenance:
        """Returns the joint provenance of several source nodes, in order of their creation; `name` is
        Inductor's name."""
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
        """Returns (operator, file:line, module path) of one node."""
        facts = self._cache.get(node)
        if facts is None:
            facts = (_operator(node), self.location(node.meta.get("stack_trace") or ""), _module(node))
            self._cache[node] = facts
        return facts

    def location(self, trace: str) -> str:
        """Returns the innermost frame of a stack trace outside torch, or else the innermost, as file:line; ''
        if it has none."""
        # "<...>" are functions of generated graphs, whose numbers differ between runs.
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
    """Returns whether a node refers to a subgraph rather than to a value."""
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
