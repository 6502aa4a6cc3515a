"""The public surface: the lazy table, and the modules that an import loads."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import wrapper_ir
from wrapper_ir.support.lazy import homes

HOME = homes(wrapper_ir._MODULES)


def test_the_table_and_all_agree() -> None:
    assert list(wrapper_ir.__all__) == sorted(wrapper_ir.__all__)
    assert set(HOME) == set(wrapper_ir.__all__)


@pytest.mark.parametrize("name", wrapper_ir.__all__)
def test_every_public_name_is_the_one_of_its_module(name: str) -> None:
    home = import_module(f"wrapper_ir.{HOME[name]}")
    assert name in vars(home)
    assert getattr(wrapper_ir, name) is getattr(home, name)
    assert name in dir(wrapper_ir)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match=r"module 'wrapper_ir' has no attribute 'nothing'"):
        wrapper_ir.nothing  # noqa: B018  # the access is the test


def loaded_after(code: str) -> set[str]:
    """Returns the modules in `sys.modules` of a fresh interpreter that ran `code`."""
    process = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(process.stdout.split())


def test_the_import_loads_nothing_heavy() -> None:
    loaded = loaded_after("import wrapper_ir")
    assert loaded & {"torch", "sympy", "numpy", "click"} == set()
    assert {m for m in loaded if m.startswith("wrapper_ir")} == {
        "wrapper_ir",
        "wrapper_ir.support",
        "wrapper_ir.support.lazy",
    }


def test_using_the_core_loads_no_sympy() -> None:
    code = (
        "import wrapper_ir as w\n"
        "p = w.parse_program('''wir 0.5\ntarget cpu\n\nsymbol s0 : int backed [1, 64] hint 8\n\n"
        "func @main(%x: f32[s0]) {\n  define s0 = size(%x, 0)\n  return %x\n}\n''')\n"
        "w.verify(p)\n"
        "assert w.parse_program(w.print_program(p)) == p\n"
        "assert w.from_json(w.to_json(p)) == p"
    )
    assert loaded_after(code) & {"torch", "sympy", "numpy", "click"} == set()
