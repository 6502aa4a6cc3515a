"""The glossary: one entry for a term, names that the code has, and no words that it replaced."""

from __future__ import annotations

import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"\| ([^|]+) \| (.+) \|")
_NAME = re.compile(r"`([A-Za-z_][\w.]*_[\w.]*|[A-Z]\w*[a-z]\w*|[a-z_]+\.[\w.]+)`")
REPLACED = {
    "recordable": "replayable",
    "unrecordable": "cudagraph_unsafe",
    "recordings": "cuda_graphs",
    "Recorded": "GraphedFunction",
    "TuningRecord": "Measurements",
    "TuningRecords": "Measurements",
    "analyses_of": "Analyses",
    "fuse_products": "fuse_matmuls",
    "donated_room": "donated_inputs",
}


def rows() -> Iterator[tuple[str, str]]:
    """Yields the terms of the glossary with their meanings."""
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        match = _ROW.fullmatch(line)
        if match is not None and match[1] not in ("term", "---"):
            yield match[1], match[2]


@cache
def names_of_the_code() -> Counter[str]:
    """Counts the names in the packages' modules, and the names of these modules."""
    names: Counter[str] = Counter()
    for path in ROOT.glob("packages/*/src/**/*.py"):
        names.update(path.with_suffix("").relative_to(path.parents[-len(ROOT.parts)]).parts)
        with tokenize.open(path) as file:
            names.update(t.string for t in tokenize.generate_tokens(file.readline) if t.type == tokenize.NAME)
    return names


def test_each_term_has_one_entry() -> None:
    terms = Counter(term.casefold() for term, _ in rows())
    assert len(terms) > 50
    assert [term for term, count in terms.items() if count > 1] == []


def test_names_of_the_glossary_are_in_the_code() -> None:
    names = names_of_the_code()
    parts = {p for _, text in rows() for name in _NAME.findall(text) for p in name.split(".") if p}
    assert len(parts) > 10
    assert sorted(parts - {*names} - {"torch", "json"}) == []


@pytest.mark.parametrize("word", REPLACED)
def test_words_that_were_replaced_name_nothing(word: str) -> None:
    assert names_of_the_code()[word] == 0, f"the term is {REPLACED[word]}"
