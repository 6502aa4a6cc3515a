"""C++ libraries: the operator database, and AddressSanitizer over many programs."""

from __future__ import annotations

import pytest

from tools.conformance import asan, sides
from tools.conformance.cpp import SIDES


@pytest.mark.conformance
def test_whole_database() -> None:
    """At least 98 % of the cases that Inductor gets right pass; writes the page."""
    assert sides.main(SIDES, []) == 0


@pytest.mark.conformance
def test_the_sanitizer_finds_a_write_past_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert asan.main(["--broken"]) != 0
    assert "heap-buffer-overflow" in capsys.readouterr().out


@pytest.mark.conformance
def test_the_sanitizer_finds_nothing_else() -> None:
    assert asan.main([]) == 0
