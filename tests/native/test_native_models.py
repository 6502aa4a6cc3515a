"""Models as libraries without torch equal eager mode, with packed weights, planned memory and dynamic sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import cpp_wrapper
from cpp_wrapper import CppOptions
from inductor_frontend import capture
from tests.common.zoo import ZOO
from wrapper_ir_passes.pipeline import run_on_artifact

PASSES = "pack-constants,use-out-variants{runtime=native},plan-memory"
QUICK = ("gpt2-dynamic", "convnet-static")


def _cases() -> list[Any]:  # Any: pytest's parameters have no public type
    names = [f"{name}-{shapes}" for name in ZOO for shapes in ("static", "dynamic")]
    return [pytest.param(n, marks=() if n in QUICK else pytest.mark.conformance) for n in names]


@pytest.mark.slow
@pytest.mark.parametrize("name", _cases())
def test_models_equal_eager(name: str, tmp_path: Path) -> None:
    model, shapes = name.split("-")
    case = ZOO[model]()
    dynamic = case.dynamic if shapes == "dynamic" else None
    artifact = capture(case.model, case.args, case.kwargs, dynamic_shapes=dynamic)
    calls: list[tuple[tuple[Any, ...], Any]] = [(case.args, case.kwargs or {})]
    if dynamic is not None and case.other is not None:
        calls.append(case.other)
    for number, one in enumerate((artifact, run_on_artifact(artifact, PASSES))):
        library = cpp_wrapper.build(
            one, tmp_path / f"m{number}.so", CppOptions(runtime="native", opt_level=1)
        )
        program = cpp_wrapper.load(library)
        for args, kwargs in calls:
            with torch.no_grad():
                want = tree_leaves(case.model(*args, **kwargs))
            for _ in range(2):  # memory of the first call is used again
                got = tree_leaves(program(*args, **kwargs))
                assert len(got) == len(want)
                for mine, theirs in zip(got, want):
                    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
