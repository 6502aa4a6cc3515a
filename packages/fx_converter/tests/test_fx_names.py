"""Names of nodes: the first use is unchanged, later ones get the next number."""

from __future__ import annotations

import re
import string

from hypothesis import given
from hypothesis import strategies as st
from torch import fx

from fx_converter.graph.names import Names

WISHES = st.lists(st.from_regex(r"[ab](_[a0-9]{1,2}){0,2}", fullmatch=True), max_size=30)


def test_a_wish_that_comes_again_gets_the_next_number() -> None:
    names = Names()
    wishes = ["k_0", "k_0", "k_5", "k_0", "k_2", "x", "x", "x_1", "_", "_"]
    found = ["k_0", "k_1", "k_5", "k_6", "k_2", "x", "x_1", "x_2", "_", "__1"]
    assert [names.fresh(wish) for wish in wishes] == found


@given(WISHES)
def test_names_differ_and_are_what_a_graph_leaves_alone(wishes: list[str]) -> None:
    names, graph = Names(), fx.Graph()
    found = [names.fresh(wish) for wish in wishes]
    assert len(set(found)) == len(found)
    assert [graph.placeholder(name).name for name in found] == found
    for wish, name in zip(wishes, found, strict=True):
        assert name == wish or re.sub(r"_\d+$", "", wish) == name.rstrip(string.digits)[:-1]
