"""Finds words that tie the repository to one machine, or that are unsafe.

- absolute paths of one workplace, and references to tickets that a reader can't follow;
- hosts of package registries, which the machine's own configuration chooses;
- in the packages' source, unpickling: no loader of ours may run code from a file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tools.checks.finding import Finding, Source

# The patterns are written so that none of them matches its own text here.
_WORDS = {
    re.compile(r"(?<![\w.\]])/[w]ork/"): "an absolute path of one machine",
    re.compile(r"/[r]oot/\."): "an absolute path of one machine",
    re.compile(r"\b[i]ssues? #?\d+\b"): "a ticket number: say what it's about instead",
    re.compile(
        r"(pypi\.org|pythonhosted\.org|registry\.npmjs|deb\.debian\.org|download\.pytorch\.org)"
    ): "the host of a package registry",
}
_PICKLERS = frozenset({"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"})
_PICKLING_CALLS = frozenset({"torch.load", "torch.save", "numpy.load", "np.load"})


def find_words(source: Source) -> Iterator[Finding]:
    """Forbidden words, in any text file but the licence."""
    if source.path.endswith("LICENSE"):
        return
    for number, line in enumerate(source.text.splitlines(), start=1):
        for pattern, why in _WORDS.items():
            if match := pattern.search(line):
                yield Finding(source.path, number, f"`{match[0]}` is {why}")


def find_pickle(source: Source) -> Iterator[Finding]:
    """Imports and calls that read or write pickles, in the packages' own source."""
    if not (source.is_python and source.path.startswith("packages/") and "/src/" in source.path):
        return
    for node in ast.walk(ast.parse(source.text)):
        for name in _names_reached(node):
            if name in _PICKLING_CALLS or name.split(".")[0] in _PICKLERS:
                yield Finding(source.path, getattr(node, "lineno", 1), f"`{name}` reaches pickle")


def _names_reached(node: ast.AST) -> Iterator[str]:
    """Modules that `node` imports, or the dotted name that it calls."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module)):
            yield module
        case ast.Call(func=func):
            yield ast.unparse(func)
        case _:
            pass
