"""The public surface: the lazy table, and what loading a library needs."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import cpp_wrapper
from wrapper_ir.support.lazy import homes

HOME = homes(cpp_wrapper._MODULES)


def test_the_table_and_all_agree() -> None:
    assert set(HOME) == set(cpp_wrapper.__all__)


@pytest.mark.parametrize("name", cpp_wrapper.__all__)
def test_every_public_name_is_the_one_of_its_module(name: str) -> None:
    home = import_module(f"cpp_wrapper.{HOME[name]}")
    assert name in vars(home)
    assert getattr(cpp_wrapper, name) is getattr(home, name)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match=r"module 'cpp_wrapper' has no attribute 'nothing'"):
        cpp_wrapper.nothing  # noqa: B018  # the access is the test


def test_loading_needs_neither_emitter_nor_verifier() -> None:
    program = "import sys, cpp_wrapper; cpp_wrapper.load; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "cpp_wrapper.library.load" in loaded
    assert not loaded & {
        "cpp_wrapper.sources.program",
        "wrapper_ir_lowering",
        "wrapper_ir_passes",
        "wrapper_ir.verifier",
    }
