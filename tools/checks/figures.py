"""Counts of what the code should have less of, by package, held to limits that only fall (`limits.json`).

`python -m tools.checks.figures` prints the figures; with `--write` it lowers limits to them. A figure above its limit
breaks the rule.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tools.checks.finding import Finding, Source, repository_files
from tools.code_lines import code_lines

_LIMITS = Path(__file__).with_name("limits.json")
_LINE = 110
_MOST_LINES = {"wrapper_ir": 16_000}
"""Lines of code of a package at most; 14,000 for others."""
_OPENING = re.compile(r"(?:What|How|Where|That|Whether|Which|Who)\b(?! (?:if|else)\b)")
_WORDS = re.compile(
    r"\bwhere (?:there|it) (?:is|are|has)\b|\bwhere none\b|\bof (?:its|their|our) own\b|\b(?:lies|lie)\b"
    r"|\b(?:some|no|every|any)body\b|\bwhoever\b|\bno one\b",
    re.IGNORECASE,
)
_PARTICIPLES = frozenset(
    [
        "asked",
        "built",
        "called",
        "chosen",
        "done",
        "drawn",
        "found",
        "given",
        "gone",
        "held",
        "kept",
        "known",
        "left",
        "lost",
        "made",
        "meant",
        "named",
        "needed",
        "passed",
        "put",
        "said",
        "seen",
        "sent",
        "shown",
        "spelled",
        "taken",
        "told",
        "used",
        "wanted",
        "written",
    ]
)
Figures = Counter[str]
Limits = Mapping[str, Mapping[str, int]]


def _texts(source: str, tree: ast.AST) -> Iterator[str]:
    """Docstrings and comments of a module."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def _bindings(tree: ast.AST) -> Iterator[str]:
    """Names that a module binds: variables and parameters."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case _:
                pass


def _uses(tree: ast.AST) -> Iterator[str]:
    """Uses of `isinstance` and `Any`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance")):
                yield "isinstance"
            case ast.Name(id="Any"):
                yield "Any"
            case _:
                pass


def figures_of(source: str) -> Figures:
    """The figures of one module. `lines` is its lines of code, to which `isinstance` and `Any` are compared."""
    tree = ast.parse(source)
    texts = list(_texts(source, tree))
    return Counter(
        {
            "lines": code_lines(source),
            "question openings": sum(bool(_OPENING.match(text.strip())) for text in texts),
            "circumlocutions": sum(len(_WORDS.findall(text)) for text in texts),
            "long lines": sum(len(line) > _LINE for line in source.splitlines()),
            "participle names": sum(name in _PARTICIPLES for name in _bindings(tree)),
            **Counter(_uses(tree)),
        }
    )


def package_figures(sources: Iterable[Source]) -> dict[str, Figures]:
    """By package: the figures of its `src` folder, `isinstance` and `Any` per 1,000 lines of code (rounded up)."""
    packages: dict[str, Figures] = {}
    for source in sources:
        parts = source.path.split("/")
        if source.is_python and parts[0] == "packages" and parts[2] == "src":
            packages.setdefault(parts[1], Counter()).update(figures_of(source.text))
    for package, figures in packages.items():
        lines = figures.pop("lines")
        if (excess := lines - _MOST_LINES.get(package, 14_000)) > 0:
            figures["lines of code too many"] = excess
        for name in ("isinstance", "Any"):
            figures[f"{name} per 1,000 lines"] = -(-1000 * figures.pop(name, 0) // max(lines, 1))
    return packages


def find_raised(sources: Iterable[Source], limits: Limits) -> Iterator[Finding]:
    """Figures above their limits; a figure without one must be 0."""
    for package, figures in package_figures(sources).items():
        for name, count in figures.items():
            limit = limits.get(package, {}).get(name, 0)
            if count > limit:
                yield Finding(f"packages/{package}/src", 1, f"{count} {name}, more than {limit}")


def read_limits() -> Limits:
    """The limits of this repository."""
    limits: Limits = json.loads(_LIMITS.read_text())
    return limits


def lowered(figures: Limits, limits: Limits) -> Limits:
    """The figures, or the limits where those are lower; names are sorted."""
    return {
        package: {
            name: min(count, limits.get(package, {}).get(name, count))
            for name, count in sorted(counts.items())
        }
        for package, counts in sorted(figures.items())
    }


def main(arguments: list[str]) -> int:
    """Print the figures; lower the limits to them with `--write`."""
    figures = package_figures(repository_files(Path(__file__).resolve().parents[2]))
    for package, counts in sorted(figures.items()):
        print(package, *(f"{count} {name}" for name, count in sorted(counts.items())), sep="\n  ")
    if "--write" in arguments:
        limits = read_limits() if _LIMITS.exists() else {}
        _LIMITS.write_text(json.dumps(lowered(figures, limits), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
