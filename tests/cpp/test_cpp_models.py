"""Models as libraries equal eager mode, through our loader and through torch's own runner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import cpp_wrapper
from cpp_wrapper import CppOptions
from inductor_frontend import capture
from tests.common.zoo import ZOO
from tests.cpp.cpp_case import stock_run

QUICK = ("gpt2-dynamic", "moe-static", "convnet-dynamic")


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
    library = cpp_wrapper.build(artifact, tmp_path / "m.so", CppOptions(opt_level=1))
    program = cpp_wrapper.load(library)
    calls: list[tuple[tuple[Any, ...], Any]] = [(case.args, case.kwargs or {})]
    if dynamic is not None and case.other is not None:
        calls.append(case.other)
    for args, kwargs in calls:
        with torch.no_grad():
            want = case.model(*args, **kwargs)
        _compare(tree_leaves(program(*args, **kwargs)), tree_leaves(want))
        flat = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        _compare(stock_run(library, flat), [x for x in tree_leaves(want) if isinstance(x, Tensor)])


def _compare(found: list[Any], want: list[Any]) -> None:  # Any: leaves of a model's outputs
    assert len(found) == len(want)
    for mine, theirs in zip(found, want):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
