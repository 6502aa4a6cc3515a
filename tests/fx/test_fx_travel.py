"""Saved graphs in a process that has nothing but torch, this package and a kernel runtime: every program, in
both forms.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.py_case import Case, artifact_of, find_runtime
from packages.py_wrapper.tests.py_programs import CASES
from torch.utils._pytree import tree_leaves

import fx_converter
from fx_converter import FxOptions
from tests.fx.fx_cases import stored
from tests.fx.other_process import another_process


def wanted(case: Case) -> tuple[Any, ...]:
    """A call, its flat results, and its first inputs afterwards."""
    after: tuple[Any, ...] = ()
    if case.after is not None:
        after = tuple(case.after(*[x.clone() for x in case.inputs()][: case.after.__code__.co_argcount]))
    return (case.inputs(), {}), tree_leaves(case.expected(*case.inputs())), list(after)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["direct", "hop"])
def test_every_program_runs_in_another_process(form: Any, tmp_path: Path) -> None:
    for case in CASES:
        module = fx_converter.convert(
            stored(artifact_of(case)), FxOptions(kernel_calls=form, find_runtime=find_runtime)
        )
        fx_converter.save(module, tmp_path / f"{case.name}.wir")
        torch.save([wanted(case)], tmp_path / f"{case.name}.pt")
    assert another_process(tmp_path, "own") == sorted(case.name for case in CASES)
