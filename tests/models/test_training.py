"""Training through `torch.compile(backend="wrapper_ir")`: loss, gradients and buffers as eager's, memory as
Inductor's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch

from py_wrapper import PyOptions, PythonEmitter
from tests.common.compare import assert_same, peak_bytes
from tests.models.training_cases import step, training_case

QUICK_FX = ["convnet", "gpt2"]
MODELS = ["bert", "convnet", "gpt2", "llama", "lstm", "moe"]
KEEPING = PythonEmitter(options=PyOptions(persistent_buffers=True))


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    # else recurrent modules stay in eager mode
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "emitter"),
    [
        *((name, "python") for name in MODELS),
        *(
            pytest.param(name, "fx", marks=() if name in QUICK_FX else pytest.mark.conformance)
            for name in MODELS
        ),
        ("moe", KEEPING),
    ],
)
def test_loss_gradients_and_buffers(name: str, emitter: str | PythonEmitter) -> None:
    case = training_case(name)
    reference = copy.deepcopy(case.model)
    options: dict[str, Any] = {"emitter": emitter}  # Any: torch's type for options has no emitters
    compiled = torch.compile(case.model, backend="wrapper_ir", options=options)
    for _ in range(2):
        want, got = step(reference, case), step(compiled, case)
        assert_same(got, want)
    for (key, a), (_, b) in zip(case.model.named_parameters(), reference.named_parameters(), strict=True):
        if b.grad is None:
            assert a.grad is None, key
        else:
            torch.testing.assert_close(
                a.grad, b.grad, rtol=1e-3, atol=1e-4, msg=partial("{}: {}".format, key)
            )
    assert_same(dict(case.model.named_buffers()), dict(reference.named_buffers()))


def peak_of(backend: str, name: str) -> int:
    torch._dynamo.reset()
    case = training_case(name)
    compiled = torch.compile(case.model, backend=backend)
    for _ in range(3):
        step(compiled, case)
        case.model.zero_grad(set_to_none=True)
    return peak_bytes(lambda: step(compiled, case))


@pytest.mark.conformance  # test_training_curves.py compares the peaks of one model in `make test`
@pytest.mark.parametrize("name", ["bert", "convnet", "gpt2", "lstm"])
def test_peak_memory_is_not_above_inductors(name: str) -> None:
    ours, theirs = peak_of("wrapper_ir", name), peak_of("inductor", name)
    assert ours <= theirs, f"{ours} bytes against {theirs}"
