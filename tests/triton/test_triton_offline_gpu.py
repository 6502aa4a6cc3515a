"""On a device: programs are those that are captured without it; models that live there; training."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import py_wrapper
from inductor_frontend import CaptureOptions, capture
from inductor_frontend.devices import properties_here
from tests.common.zoo import ZOO, Case
from wrapper_ir import print_program
from wrapper_ir.artifact import Artifact

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="programs are captured on a CUDA device, and there is none"
    ),
]
MODELS = ["mlp", "gpt2", "bert", "vit", "lstm"]
TOLERANCE = 2e-3
"""Matmuls on the device add up in another order, and eager mode fuses nothing."""


# Any: the arguments and outputs of any model
def on_device(tree: Any) -> Any:
    return pytree.tree_map(lambda x: x.cuda() if isinstance(x, torch.Tensor) else x, tree)


def there(name: str) -> Case:
    """A model with its arguments on the device."""
    case = ZOO[name]()
    return dataclasses.replace(
        case, model=case.model.cuda(), args=on_device(case.args), kwargs=on_device(case.kwargs)
    )


def captured(case: Case) -> Artifact:
    return capture(case.model, case.args, case.kwargs)


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the text of each model's program, captured without a visible device."""
    folder = tmp_path_factory.mktemp("offline")
    subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.triton.offline_worker", str(folder), *MODELS],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        input=json.dumps(dataclasses.asdict(properties_here())),
        text=True,
        check=True,
    )
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_the_program_is_the_same_without_the_device(name: str, offline: Path) -> None:
    here = print_program(captured(there(name)).program)
    assert here == (offline / f"{name}.wir.txt").read_text(encoding="utf-8")


def test_the_program_is_the_same_with_a_target() -> None:
    """A model on the device, captured for such a device, is not touched."""
    case, gpu = there("gpt2"), properties_here()
    again = capture(
        case.model, case.args, case.kwargs, target=f"cuda:{gpu.arch}", options=CaptureOptions(gpu=gpu)
    )
    assert print_program(again.program) == print_program(captured(case).program)
    assert {p.device.type for p in case.model.parameters()} == {"cuda"}


@pytest.mark.parametrize("name", ["gpt2", "lstm"])
def test_models_on_the_device_equal_eager(name: str) -> None:
    case = there(name)
    artifact = captured(case)
    weights = dict(case.model.named_parameters())
    kept = {name: data for name, data in artifact.constants.items() if name in weights}
    assert kept
    for name, data in kept.items():
        assert bytes(data.buffer) == weights[name].detach().cpu().numpy().tobytes()
    with torch.no_grad():
        want = case.model(*case.args, **(case.kwargs or {}))
        got = py_wrapper.compile(artifact)(*case.args, **(case.kwargs or {}))
    torch.testing.assert_close(
        pytree.tree_leaves(got), pytree.tree_leaves(want), rtol=TOLERANCE, atol=TOLERANCE
    )


def test_training_equals_eager(tmp_path: Path) -> None:
    case = there("gpt2")
    case.model.train()
    for part in case.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    ids = (case.kwargs or {})["input_ids"]

    # Any: the model's class is a library's
    def step(model: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        case.model.zero_grad()
        loss: torch.Tensor = model(input_ids=ids, labels=ids).loss
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        grads = {n: p.grad.clone() for n, p in case.model.named_parameters() if p.grad is not None}
        return loss.detach(), grads

    want = step(case.model)
    torch.compiler.reset()
    got = step(torch.compile(case.model, backend="wrapper_ir", options={"cache": str(tmp_path)}))
    assert set(got[1]) == set(want[1])
    torch.testing.assert_close(got, want, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_reductions_along_rows_and_columns(dtype: torch.dtype) -> None:
    """In one kernel, if the tensor is large: the columns are finished by an operator."""

    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x * y).sum(-1), (x * y).sum(0), x.sum(0)

    args = tuple(torch.randn(32768, 256, device="cuda", dtype=dtype) for _ in range(2))
    artifact = capture(model, args)
    assert "RSPLIT_SIZE" in print_program(artifact.program)
    close = 2e-3 if dtype is torch.float32 else 2e-1
    torch.testing.assert_close(py_wrapper.compile(artifact)(*args), model(*args), rtol=close, atol=close * 10)
