"""The tool that runs real models beside stock; `python -m tools.conformance.models` runs them."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor, nn

from tools.conformance.models import __main__ as tool
from tools.conformance.models.statements import check
from tools.conformance.models.zoo import ModelCase, model_cases

_CASES = model_cases()
_ANSWER = '{"name": "gpt2", "statement": "%s", "stock": "", "error": "", "exact": true, "graphs": [1, 1]}'


def _worker(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Makes workers run `script`, with their requested statements in `statements`."""
    statements = "[job.partition(':')[2] for job in sys.argv[1:]]"
    text = f"import os, sys; statements = {statements}; answer = {_ANSWER!r}\n{script}"
    monkeypatch.setattr(tool, "_WORKER", (sys.executable, "-c", text))


def test_families_and_names() -> None:
    transformers = [case for case in _CASES.values() if case.family != "torchvision"]
    assert len(transformers) >= 40
    assert {"generation" in tool.statements_of(case) for case in transformers} == {True, False}


def test_a_process_that_ends_decides_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    _worker(
        monkeypatch,
        "for statement in statements:\n"
        '    print(\'{"at": "stock"}\', flush=True)\n'
        "    if statement == 'gradients': os.abort()\n"
        '    print(\'{"at": "ours"}\', flush=True)\n'
        "    if statement == 'generation': os.abort()\n"
        "    print(answer % statement, flush=True)\n",
    )
    forward, gradients, generation = tool.run_model(_CASES["gpt2"], timeout=60)
    assert forward["exact"]
    assert not forward["error"]
    assert "ended with -6" in gradients["stock"]
    assert not gradients["error"]
    assert "ended with -6" in generation["error"]
    assert not generation["stock"]


def test_a_process_that_hangs_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    _worker(monkeypatch, "import time; time.sleep(60)")
    assert {r["error"] for r in tool.run_model(_CASES["bert"], timeout=0.5)} == {"no answer in 0.5 s"}


def test_page() -> None:
    results = [
        {"name": "gpt2", "statement": "forward", "stock": "", "error": "", "exact": True, "graphs": [1, 1]},
        {"name": "gpt2", "statement": "gradients", "stock": "", "error": "E: bad\nline", "exact": False},
        {"name": "bert", "statement": "forward", "stock": "S: no", "error": "", "exact": False},
    ]
    text = tool.render(results, _CASES)
    assert "Of 3 cases of 2 models stock gets 2 right; of these ours gets 1 right, 1 of them" in text
    assert "| decoder | gpt2 | equal | **wrong** |  |" in text
    assert "- gpt2, gradients: E: bad line" in text
    assert "- bert, forward: S: no" in text


@pytest.mark.conformance
@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_models_equal_stock(case: ModelCase) -> None:
    for result in tool.run_model(case, timeout=1200):
        assert not result["error"], result


class _Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.layer(x).relu()
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


@pytest.mark.parametrize("statement", ["forward", "gradients"])
def test_statements(statement: str) -> None:
    def inputs() -> dict[str, Tensor]:
        return {"x": torch.randn(2, 4), "labels": torch.tensor([0, 2])}

    sides: list[str] = []
    case = ModelCase(name="tiny", family="test", make=_Tiny, inputs=inputs)
    assert check(case, statement, sides.append) == {"error": "", "exact": True, "graphs": [1, 1]}
    assert sides == ["stock", "ours"]
