"""Samples docstrings and comments that differ between a commit and the working tree.

`python -m tools.prose_samples BASE` prints thirty random pairs of each; `--write` writes the page
`docs/development/prose-samples.md`, and `--seed` draws others. Definitions of the packages are paired by name and
body, so files and packages may have moved. The draw is uniform over all pairs whose text changed.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools.checks.finding import Source, repository_files

_ROOT = Path(__file__).resolve().parents[1]
_PAGE = _ROOT / "docs" / "development" / "prose-samples.md"
_COUNT = 30
_SEED = 34
_SAME_NAME, _OTHER_NAME = 0.4, 0.7
"""The least similarity of two bodies, with equal and with different names."""
_SAME_LINE = 0.6
"""The least similarity of the lines that two comments stand at."""
_LEAST_TOKENS = 8
"""Definitions of fewer tokens are paired only if their names are equal."""
_TOKEN = re.compile(r"\w+|[^\w\s]")
_DIRECTIVE = re.compile(r"^(?:type: ignore|noqa|fmt)\S*(?: [A-Z]+\d+,?)*(?: (?:skip|off|on)\b)?[\s#]*")
"""Instructions to tools; their reasons are prose."""
_HEADER = """\
# Prose before and after the rewrite

Written by `python -m tools.prose_samples COMMIT --write`, where COMMIT is the one before the rewrite. The site omits
this page. Each list is a uniform draw with the seed {seed}: {count} of the {docstrings} docstrings, and {count} of the
{comments} comments, that differ between the two states of the packages.
"""


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, and the line of code that it stands at or above."""

    line: str
    text: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or class of a package: its code without prose, and the prose without the code."""

    path: str
    name: str
    tokens: frozenset[str]
    docstring: str
    comments: tuple[Comment, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A text before and after, with the place of the second."""

    path: str
    name: str
    before: str
    after: str


def definitions(source: Source) -> Iterator[Definition]:
    """The functions and classes of a module, by their names within it."""
    comments = list(_comments(source.text))
    lines = source.text.splitlines()
    for name, node in _named(ast.parse(source.text), ""):
        nested = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        own = set(range(node.lineno, (node.end_lineno or 0) + 1))
        own -= {i for n in nested for i in range(n.lineno, (n.end_lineno or 0) + 1)}
        docstring = ast.get_docstring(node) or ""
        body = node.body[1:] if docstring else node.body
        code = " ".join([ast.unparse(n) for n in body])
        yield Definition(
            path=source.path,
            name=name,
            tokens=_shingles(code),
            docstring=" ".join(docstring.split("\n\n")[0].split()),
            comments=tuple([Comment(_line_at(lines, i), text) for i, text in comments if i in own]),
        )


def _named(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield prefix + child.name, child
            yield from _named(child, f"{prefix}{child.name}.")


def _shingles(code: str) -> frozenset[str]:
    """Runs of three tokens: they keep the order of code, which sets of tokens lose."""
    tokens = _TOKEN.findall(code)
    return frozenset(" ".join(tokens[i : i + 3]) for i in range(max(len(tokens) - 2, 1)))


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Comments with their last lines. Comments on consecutive lines without code are one."""
    rows: list[tuple[int, str, bool]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            alone = not token.line[: token.start[1]].strip()
            words = _DIRECTIVE.sub("", token.string.lstrip("# ")).strip()
            rows += [(token.start[0], words, alone)] if words else []
    joined: list[tuple[int, str, bool]] = []
    for number, words, alone in rows:
        if alone and joined and joined[-1][2] and joined[-1][0] == number - 1:
            joined[-1] = number, f"{joined[-1][1]} {words}", True
        else:
            joined.append((number, words, alone))
    yield from ((number, words) for number, words, _ in joined)


def _line_at(lines: Sequence[str], number: int) -> str:
    """The code of a line with a comment; of the next line, if the line has none."""
    for line in lines[number - 1 :]:
        if code := line.split("#")[0].strip():
            return code
    return ""


def paired(before: Iterable[Definition], after: Iterable[Definition]) -> list[tuple[Definition, Definition]]:
    """Pairs each definition with the most similar one, those of the same name first; each is in one pair."""
    same_name, old, new = _most_similar([*before], [*after], _SAME_NAME, lambda d: d.name.rpartition(".")[2])
    large_old, large_new = ([d for d in side if len(d.tokens) >= _LEAST_TOKENS] for side in (old, new))
    other_name, _, _ = _most_similar(large_old, large_new, _OTHER_NAME, lambda d: "")
    return same_name + other_name


def _most_similar(
    old: list[Definition], new: list[Definition], least: float, group: Callable[[Definition], str]
) -> tuple[list[tuple[Definition, Definition]], list[Definition], list[Definition]]:
    """Pairs of the same group with at least this similarity, the most similar first; and the rest of both."""
    groups: dict[str, list[int]] = defaultdict(list)
    for i, definition in enumerate(old):
        groups[group(definition)].append(i)
    scores = [
        (score + _closeness(old[i], b), i, j)
        for j, b in enumerate(new)
        for i in groups.get(group(b), ())
        if (score := _similarity(old[i].tokens, b.tokens, least)) >= least
    ]
    matches: dict[int, int] = {}
    paired_new: set[int] = set()
    for _, i, j in sorted(scores, key=lambda item: (-item[0], *item[1:])):
        if i not in matches and j not in paired_new:
            matches[i] = j
            paired_new.add(j)
    return (
        [(old[i], new[j]) for i, j in matches.items()],
        [a for i, a in enumerate(old) if i not in matches],
        [b for j, b in enumerate(new) if j not in paired_new],
    )


def _similarity(a: frozenset[str], b: frozenset[str], least: float = 0.0) -> float:
    """The Jaccard index; 0 without comparing if the sizes alone exclude `least`."""
    if min(len(a), len(b)) < least * max(len(a), len(b)):
        return 0.0
    return len(a & b) / len(a | b)


def _closeness(old: Definition, new: Definition) -> float:
    """Prefers the same class and the same file among definitions with equal bodies."""
    same_file = PurePosixPath(old.path).name == PurePosixPath(new.path).name
    return 0.02 * (old.name == new.name) + 0.01 * same_file


def docstring_pairs(pairs: Iterable[tuple[Definition, Definition]]) -> list[Pair]:
    """The first paragraphs of docstrings that differ."""
    return [
        Pair(new.path, new.name, old.docstring, new.docstring)
        for old, new in pairs
        if old.docstring and new.docstring and old.docstring != new.docstring
    ]


def comment_pairs(pairs: Iterable[tuple[Definition, Definition]]) -> list[Pair]:
    """Comments at the same or a similar line of code that differ."""
    changed: list[Pair] = []
    for old, new in pairs:
        texts = {comment.text for comment in old.comments}
        for comment in new.comments:
            scores = [(_similarity(_shingles(c.line), _shingles(comment.line)), c.text) for c in old.comments]
            score, before = max(scores, default=(0.0, ""))
            if score >= _SAME_LINE and comment.text not in texts:
                changed.append(Pair(new.path, new.name, before, comment.text))
    return changed


def draw(pairs: Sequence[Pair], seed: int) -> list[Pair]:
    """A uniform sample, in the order of its places."""
    ordered = sorted(pairs, key=lambda pair: (pair.path, pair.name, pair.after))
    sample = random.Random(seed).sample(ordered, min(_COUNT, len(ordered)))
    return sorted(sample, key=lambda pair: (pair.path, pair.name, pair.after))


def page(docstrings: Sequence[Pair], comments: Sequence[Pair], seed: int) -> str:
    """The page with both samples."""
    counts = {"docstrings": len(docstrings), "comments": len(comments)}
    parts = [_HEADER.format(count=_COUNT, seed=seed, **counts)]
    for title, pairs in (("Docstrings", docstrings), ("Comments", comments)):
        parts.append(f"## {title}\n\nFirst paragraphs only.\n" if pairs is docstrings else f"## {title}\n")
        for pair in draw(pairs, seed):
            place = f"{pair.path.split('/src/')[1]}, {pair.name}"
            parts.append(f"{place}\n\n```text\n- {pair.before}\n+ {pair.after}\n```\n")
    return "\n".join(parts)


def is_sampled(path: str) -> bool:
    """Selects the sources of the packages."""
    return re.fullmatch(r"packages/\w+/src/.*\.py", path) is not None


def sources_of(commit: str) -> Iterator[Source]:
    """The sources of the packages at a commit."""
    for path in _git("ls-tree", "-r", "--name-only", commit).splitlines():
        if is_sampled(path):
            yield Source(path, _git("show", f"{commit}:{path}"))


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=_ROOT, check=True, capture_output=True, text=True).stdout


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.prose_samples", description=__doc__)
    parser.add_argument("base", metavar="BASE", help="the commit with the earlier texts")
    parser.add_argument("--write", action="store_true", help="write the page instead of printing it")
    parser.add_argument("--seed", type=int, default=_SEED)
    options = parser.parse_args()
    before = [d for source in sources_of(options.base) for d in definitions(source)]
    after = [d for s in repository_files(_ROOT) if is_sampled(s.path) for d in definitions(s)]
    pairs = paired(before, after)
    text = page(docstring_pairs(pairs), comment_pairs(pairs), options.seed)
    if options.write:
        _PAGE.parent.mkdir(exist_ok=True)
        _PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
