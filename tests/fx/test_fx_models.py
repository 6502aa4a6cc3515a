"""Graphs of real models: traced again in every way, and run by another process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import fx_converter
from fx_converter import FxOptions
from tests.common.compare import assert_same, clone_tree
from tests.common.zoo import ZOO
from tests.fx.other_process import another_process
from tests.fx.retracing import WAYS, traced
from tests.models.model_cases import artifact_of, calls_of, case_of

FAST = "mlp"
NAMES = [pytest.param(name, marks=() if name == FAST else pytest.mark.conformance) for name in sorted(ZOO)]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", NAMES)
class TestModel:
    def test_traced_again(self, name: str, dynamic: bool) -> None:
        """If sizes stay free, on inputs of other sizes too."""
        case = case_of(name)
        options = FxOptions(kernel_calls="hop", convention="flat")
        module = fx_converter.convert(artifact_of(name, dynamic), options)
        calls = [pytree.tree_leaves(call) for call in calls_of(case, dynamic)]
        with torch.no_grad():
            for way in WAYS:
                again = traced(module, way, clone_tree(calls[0]))
                for flat in calls if way in ("symbolic", "export dynamic") else calls[:1]:
                    assert_same(again(*clone_tree(flat)), module(*clone_tree(flat)))

    @pytest.mark.slow
    def test_another_process(self, name: str, dynamic: bool, tmp_path: Path) -> None:
        """On all calls, in both forms."""
        case = case_of(name)
        forms: tuple[Any, ...] = ("direct", "hop")
        for form in forms:
            module = fx_converter.convert(artifact_of(name, dynamic), FxOptions(kernel_calls=form))
            module.graph.lint()
            fx_converter.save(module, tmp_path / f"{form}.wir")
            with torch.no_grad():
                calls: list[tuple[Any, ...]] = [
                    (call, pytree.tree_leaves(module(*clone_tree(call[0]), **clone_tree(call[1]))), [])
                    for call in calls_of(case, dynamic)
                ]
            torch.save(calls, tmp_path / f"{form}.pt")
        assert another_process(tmp_path, "installed") == ["direct", "hop"]
