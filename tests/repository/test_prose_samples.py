"""Samples of prose: definitions are paired although files moved, and only changed texts are drawn."""

from __future__ import annotations

import pytest

from tools.checks.finding import Source
from tools.prose_samples import (
    Pair,
    comment_pairs,
    definitions,
    docstring_pairs,
    draw,
    is_sampled,
    page,
    paired,
)

BEFORE = '''
class Store:
    """What is stored."""

    def get(self, key):
        """Where the key is."""
        # somebody may have removed it
        return self.data.get(key, None)  # noqa: B009  # read once

    def put(self, key, value):
        """Puts a value."""
        self.data[key] = value


def removed(a, b):
    """Gone."""
    return [a, b]


def old_name(values):
    """What is left of them."""
    return [value for value in values if value is not None]
'''
AFTER = '''
class Store:
    """A store."""

    def put(self, key, value):
        """Puts a value."""
        self.data[key] = value

    def get(self, key):
        """Returns the value of a key."""
        # another process
        # may have removed it
        return self.data.get(key, None)  # noqa: B009  # read once


def new_name(values):
    """Returns the values."""
    return [value for value in values if value is not None]
'''


@pytest.fixture
def pairs() -> list[tuple[Pair, ...]]:
    before = definitions(Source("packages/p/src/p/a.py", BEFORE))
    after = definitions(Source("packages/q/src/q/b.py", AFTER))
    matches = paired(before, after)
    return [tuple(docstring_pairs(matches)), tuple(comment_pairs(matches))]


def test_changed_texts_are_paired(pairs: list[tuple[Pair, ...]]) -> None:
    docstrings, comments = pairs
    place = "packages/q/src/q/b.py"
    assert set(docstrings) == {
        Pair(place, "Store", "What is stored.", "A store."),
        Pair(place, "Store.get", "Where the key is.", "Returns the value of a key."),
        Pair(place, "new_name", "What is left of them.", "Returns the values."),
    }
    assert comments == (
        Pair(place, "Store.get", "somebody may have removed it", "another process may have removed it"),
    )


def test_a_draw_is_reproducible(pairs: list[tuple[Pair, ...]]) -> None:
    many = [Pair("packages/q/src/q/b.py", f"f{i}", "a", f"b{i}") for i in range(200)]
    assert draw(many, 1) == draw(many[::-1], 1) != draw(many, 2)
    text = page(many, pairs[1], 1)
    assert text.count("\n+ b") == 30
    assert "- somebody may have removed it\n+ another process may have removed it\n" in text


def test_only_sources_of_packages_are_sampled() -> None:
    assert is_sampled("packages/p/src/p/x/y.py")
    assert not is_sampled("packages/p/tests/test_x.py")
    assert not is_sampled("tools/x.py")
