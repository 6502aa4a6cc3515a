"""Finds circular imports: two files that need each other belong together.

Every import counts, including those in functions and those for types alone. There are no exceptions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from tools.checks.finding import Finding, Source

Edges = Mapping[str, Mapping[str, int]]
"""By module, the modules that it imports, and the line of the first import of each."""


def find_circles(sources: Iterable[Source]) -> Iterator[Finding]:
    """Circles of imports between the files of a package."""
    modules = {name: source for source in sources if (name := _module(source.path))}
    edges = {name: dict(_imports(name, source, modules.keys())) for name, source in modules.items()}
    for circle in _circles(edges):
        first = min(circle)
        line = min(at for to, at in edges[first].items() if to in circle)
        yield Finding(modules[first].path, line, f"imports go in a circle: {', '.join(sorted(circle))}")


def _module(path: str) -> str:
    """The name of a package's own module, '' for other files."""
    parts = PurePosixPath(path).with_suffix("").parts
    if parts[:1] != ("packages",) or parts[2:3] != ("src",) or not path.endswith(".py"):
        return ""
    return ".".join(parts[3:]).removesuffix(".__init__")


def _imports(name: str, source: Source, modules: Iterable[str]) -> Iterator[tuple[str, int]]:
    """The modules that a file imports anywhere, the last line first, so that the first one stays."""
    names = set(modules)
    imports: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.Import):
            imports += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            inner = (f"{node.module}.{alias.name}" for alias in node.names)
            imports += [(full if full in names else node.module, node.lineno) for full in inner]
    return ((to, at) for to, at in sorted(imports, key=lambda f: -f[1]) if to in names and to != name)


def _circles(edges: Edges) -> list[list[str]]:
    """Sets of modules that all reach each other (Tarjan 1972, without recursion)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []
    for root in edges:
        work = [(root, iter(edges[root]))] if root not in number else []
        while work:
            node, rest = work[-1]
            if node not in number:
                number[node] = low[node] = len(number)
                stack.append(node)
            for to in rest:
                if to not in number:
                    work.append((to, iter(edges[to])))
                    break
                if to in stack:
                    low[node] = min(low[node], number[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    circle = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    circles += [circle] if len(circle) > 1 else []
    return circles
