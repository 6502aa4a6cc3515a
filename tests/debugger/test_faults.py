"""Ten faults, planted in captured models, are each found in at most three commands.

The page shows the same commands and finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.debugger.faults import FAULTS, Fault
from tests.debugger.transcript import BEGIN, END, PAGE, find
from wrapper_ir.artifact import Artifact


def shown(fault: Fault) -> str:
    """Returns the page's section about a fault."""
    text = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    title = f"### {fault.name[0].upper()}{fault.name[1:]}\n"
    assert title in text
    return text.partition(title)[2].partition("### ")[0]


def without_numbers(text: str) -> str:
    return re.sub(r"%buf\d+", "%buf", text)


QUICK = ("a wrong kernel constant", "a bad in-place")
"""Faults in the largest model that `make slow` checks; all faults of the other models."""


def choice(fault: Fault) -> object:
    is_long = fault.model == "gpt2" and fault.name not in QUICK
    marks = pytest.mark.conformance if is_long else ()
    return pytest.param(fault, marks=marks, id=fault.name.replace(" ", "-"))


@pytest.mark.slow
@pytest.mark.parametrize("fault", list(map(choice, FAULTS)))
def test_fault(fault: Fault, good: Callable[[str], Artifact]) -> None:
    assert len(fault.commands) <= 3
    printed = find(fault, good(fault.model))
    for wanted in fault.found_in(good(fault.model)):
        assert wanted.search(printed[-1][1]), printed[-1][1]
    page = shown(fault)  # of one version of torch: buffers have other numbers in others
    for command, _ in printed:
        assert without_numbers(f"$ {command}\n") in without_numbers(page)
    for text in fault.found:
        assert re.search(text.replace("%SUBJECT", r"%buf\d+"), page)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", pytest.param("gpt2", marks=pytest.mark.conformance)])
def test_a_good_program_shows_no_fault(name: str, good: Callable[[str], Artifact]) -> None:
    same = Fault(
        name,
        name,
        lambda artifact: artifact,
        ("wir compare bad.wir --with eager", "wir hunt bad.wir --nan"),
        (),
    )
    (_, compared), (_, hunted) = find(same, good(name))
    assert compared.startswith("no difference: ")
    assert hunted.startswith("nothing is bad")
