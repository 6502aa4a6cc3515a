"""Passes and explanations are imported on demand, with unchanged names."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from wrapper_ir.support.lazy import homes
from wrapper_ir_passes import PASSES
from wrapper_ir_tools import explain


def test_the_table_of_names_is_that_of_the_modules() -> None:
    home = homes(explain._MODULES)
    modules = {name: import_module(f"{explain.__name__}.{name}") for name in sorted({*home.values()})}
    for name, module in home.items():
        assert getattr(explain, name) is getattr(modules[module], name)


def test_no_module_hides_a_name() -> None:
    """An import would replace the package's attribute of that name by the module."""
    assert explain.__file__ is not None
    modules = {path.stem for path in Path(explain.__file__).parent.iterdir()}
    assert modules.isdisjoint(homes(explain._MODULES))


def test_each_pass_is_found_by_its_name() -> None:
    assert [cls.name for cls in PASSES.values()] == [*PASSES]
    assert len(PASSES) == len({*PASSES.values()})
    with pytest.raises(KeyError):
        PASSES["fold"]


def test_a_plan_imports_no_other_pass() -> None:
    code = """
import sys
from wrapper_ir_passes import parse_pipeline
parse_pipeline("plan-memory")
print(*sorted(m for m in sys.modules if m.startswith(("wrapper_ir_passes.memory", "wrapper_ir_tools.explain"))))
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reorder_for_memory" not in process.stdout
    assert "split_storages" not in process.stdout
    assert "explain" not in process.stdout
