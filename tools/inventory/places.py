"""The places in a torch source tree that capture has to know: text sites, code generators, wrapper hooks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.inventory.digest import digest

_TEXT = frozenset(
    {"writeline", "writelines", "splice", "writeline_aot", "writeline_jit", "splice_aot", "splice_jit"}
)
"""Methods by which text or lines get into a buffer."""
_LISTS = frozenset({"lines", "_lines"})
"""Attributes that are the buffers' own lists."""
_LIST_METHODS = frozenset({"append", "extend", "insert"})
_CODEGEN = frozenset({"codegen", "codegen_fx"})

# Most files contain none of these words, and parsing takes most of the time.
_WORTH_PARSING = re.compile(r"writeline|splice|lines\.(append|extend|insert)|def codegen")

_WRAPPER = ("codegen/wrapper.py", "PythonWrapperCodegen")
_GRAPH = ("graph.py", "GraphLowering")

_Scope = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One place: `file` below torch/_inductor, `owner` a qualified function or class, `receiver` the object
    that a text site writes to (empty for the others), `line` and `text` for messages, `digest` of its syntax.
    """

    file: str
    owner: str
    receiver: str
    line: int
    text: str
    digest: str

    @property
    def key(self) -> str:
        """Key by which places are grouped within a file."""
        return f"{self.owner} > {self.receiver}" if self.receiver else self.owner

    def __str__(self) -> str:
        return f"torch/_inductor/{self.file}:{self.line} {self.key}: {self.text[:120]}"


def _scopes(node: ast.AST, names: tuple[str, ...] = ()) -> Iterator[tuple[str, _Scope]]:
    """Every class and function, with its qualified name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Scope):
            inner = (*names, child.name)
            yield ".".join(inner), child
            yield from _scopes(child, inner)
        else:
            yield from _scopes(child, names)


def _receiver(node: ast.AST) -> str | None:
    """Returns the object that text is written to if `node` refers to one of the writing methods, called or
    not.
    """
    if not isinstance(node, ast.Attribute):
        return None
    if node.attr in _TEXT:
        return ast.unparse(node.value)
    inner = node.value
    if node.attr in _LIST_METHODS and isinstance(inner, ast.Attribute) and inner.attr in _LISTS:
        return ast.unparse(inner)
    return None


def _sites(node: ast.AST, statement: ast.AST | None = None) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Yields (receiver, site, hashed syntax) of one scope's own body, without nested scopes.

    Hashed is the simple statement around the site, or the site alone in the head of a compound one.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Scope):
            continue
        around = child if isinstance(child, ast.stmt) and not hasattr(child, "body") else statement
        receiver = _receiver(child)
        if receiver is not None:
            yield receiver, child, around if around is not None else child
        yield from _sites(child, around)


class SourceTree:
    """The sources of one torch, parsed on first use.

    `root` is the folder `torch` itself, `left_out` files below torch/_inductor that are not read.
    """

    def __init__(self, root: Path, left_out: frozenset[str] = frozenset()) -> None:
        self.root = root
        self._left_out = left_out
        if not (root / "_inductor").is_dir():
            raise FileNotFoundError(f"{root} holds no torch sources: no folder _inductor")

    @cached_property
    def _trees(self) -> dict[str, ast.Module]:
        inductor = self.root / "_inductor"
        trees: dict[str, ast.Module] = {}
        for path in sorted(inductor.rglob("*.py")):
            name = path.relative_to(inductor).as_posix()
            text = "" if name in self._left_out else path.read_text(encoding="utf-8")
            if _WORTH_PARSING.search(text):
                trees[name] = ast.parse(text)
        return trees

    def without(self, files: Iterable[str]) -> SourceTree:
        """This tree without some of its files, which are then never parsed."""
        return SourceTree(self.root, frozenset(files))

    @property
    def version(self) -> str:
        """Major and minor version, such as `2.13`; raises ValueError if version.py does not contain it."""
        tree = ast.parse((self.root / "version.py").read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
                full = ast.literal_eval(node.value)
                return ".".join(str(full).split(".")[:2])
        raise ValueError(f"{self.root / 'version.py'} names no version")

    def text_sites(self) -> list[Place]:
        """Every place that writes, or hands on a method that writes, text or lines."""
        sites = []
        for file, tree in self._trees.items():
            for owner, scope in _scopes(tree):
                for receiver, site, hashed in _sites(scope):
                    line = getattr(site, "lineno", 0)
                    sites.append(Place(file, owner, receiver, line, ast.unparse(hashed), digest(hashed)))
        return sorted(sites)

    def generators(self) -> list[Place]:
        """Returns every class that defines `codegen` or `codegen_fx`."""
        return sorted(
            Place(file, name, method.name, method.lineno, f"def {method.name}", digest(method))
            for file, tree in self._trees.items()
            for name, scope in _scopes(tree)
            if isinstance(scope, ast.ClassDef)
            for method in scope.body
            if isinstance(method, ast.FunctionDef) and method.name in _CODEGEN
        )

    def hooks(self) -> list[Place]:
        """Every method of the Python wrapper generator and of the graph lowering."""
        return sorted(
            Place(file, f"{name}.{method.name}", "", method.lineno, f"def {method.name}", digest(method))
            for file, name in (_WRAPPER, _GRAPH)
            for scope in self._trees[file].body
            if isinstance(scope, ast.ClassDef) and scope.name == name
            for method in scope.body
            if isinstance(method, ast.FunctionDef)
        )
