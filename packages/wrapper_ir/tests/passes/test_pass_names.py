"""Passes and explanations are imported when they are asked for, and nothing else about their names has changed for that."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from wrapper_ir import explain, passes
from wrapper_ir.passes import PASSES

PACKAGES = (passes, explain)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_table_of_names_is_that_of_the_modules(package: ModuleType) -> None:
    home: dict[str, str] = package._HOME
    modules = {name: import_module(f"{package.__name__}.{name}") for name in sorted({*home.values()})}
    public = {name: module for module, found in modules.items() for name in found.__all__}
    assert home == public
    for name, module in home.items():
        assert getattr(package, name) is getattr(modules[module], name)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_hides_a_name(package: ModuleType) -> None:
    """Its import would put the module in the place of what the package gives by that name."""
    assert package.__file__ is not None
    modules = {path.stem for path in Path(package.__file__).parent.iterdir()}
    assert modules.isdisjoint(package._HOME)
    assert callable(passes.derive_frees)


def test_each_pass_is_found_by_its_name() -> None:
    assert [cls.name for cls in PASSES.values()] == [*PASSES]
    assert len(PASSES) == len({*PASSES.values()})
    with pytest.raises(KeyError):
        PASSES["fold"]


def test_a_plan_imports_no_other_pass() -> None:
    code = """
import sys
from wrapper_ir.passes import parse_pipeline
parse_pipeline("plan-memory")
print(*sorted(m for m in sys.modules if m.startswith(("wrapper_ir.passes.re", "wrapper_ir.passes.s", "wrapper_ir.explain"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reorder_for_memory" not in done.stdout
    assert "split_storages" not in done.stdout
    assert "explain" not in done.stdout
