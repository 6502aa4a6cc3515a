"""The tool that runs real models as native libraries; `python -m tools.conformance.models.native` runs them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tools.conformance.models import native as tool
from tools.conformance.models.libraries import DYNAMIC, FIXED, STATEMENTS, ExportError, check_library
from tools.conformance.models.zoo import ModelCase, model_cases

_CASES = model_cases()


def _result(name: str, statement: str, **facts: Any) -> dict[str, Any]:  # Any: JSON
    known = {"error": "", "export": "", "difference": 0.0, "dimensions": []}
    return {"name": name, "statement": statement, **known, **facts}


def test_page() -> None:
    lacks = "EmitError: [CPP502] the native runtime lacks 1 of the program's operators: aten::far hint: none"
    results = [
        _result("gpt2", FIXED, difference=3e-7),
        _result("gpt2", DYNAMIC, dimensions=["batch", "length"], difference=4e-7),
        _result("bert", FIXED, error="AssertionError: bad\nline"),
        _result("bert", DYNAMIC, error=lacks),
        _result("vit", DYNAMIC, export="E: no"),
    ]
    text = tool.render(results, _CASES)
    assert (
        "Of 5 cases of 3 models torch.export exports 4; of these 2 are equal to eager, 1 are refused" in text
    )
    assert f"So far 5 of {2 * len(_CASES)} cases ran." in text
    assert "| decoder | gpt2 | equal | equal: batch, length | 4e-07 |" in text
    assert "| encoder | bert | **wrong** | refused |  |" in text
    assert "| vision | vit |  | not exported |  |" in text
    assert "- bert, fixed: AssertionError: bad line" in text
    assert "- vit, dynamic: E: no" in text
    assert "| `aten::far` | not in the runtime | `bert, dynamic` |" in text


def test_a_process_that_ends_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import os, sys\n"
        "print('{\"at\": \"%s\"}' % ('export' if sys.argv[1] == 'gpt2:fixed' else 'ours'), flush=True)\n"
        "os.abort()\n"
    )
    monkeypatch.setattr(tool, "_WORKER", (sys.executable, "-c", script))
    fixed, dynamic = tool.run_libraries([("gpt2", FIXED), ("gpt2", DYNAMIC)], timeout=60)
    assert "ended with -6" in fixed["export"]
    assert "ended with -6" in dynamic["error"]


class _Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor, labels: Tensor, has_loss: bool) -> dict[str, Tensor]:
        logits = self.layer(x).relu()
        loss = nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits} if has_loss else {"logits": logits}


class _Unexported(_Tiny):
    def forward(self, x: Tensor, labels: Tensor, has_loss: bool) -> dict[str, Tensor]:
        assert x.sum().item() != 1  # torch.export does not know it
        return super().forward(x, labels, has_loss)


def _case(make: type[nn.Module]) -> ModelCase:
    def inputs() -> dict[str, Any]:
        return {"x": torch.randn(1, 4), "labels": torch.tensor([2]), "has_loss": True}

    return ModelCase(name="tiny", family="test", make=make, inputs=inputs)


@pytest.mark.slow
@pytest.mark.parametrize("statement", STATEMENTS)
def test_libraries(statement: str) -> None:
    steps: list[str] = []
    found = check_library(_case(_Tiny), statement, steps.append)
    assert found.dimensions == (("batch",) if statement == DYNAMIC else ())
    assert found.difference < 1e-6
    assert steps == ["export", "ours"]


def test_what_torch_export_refuses() -> None:
    with pytest.raises(ExportError, match="data-dependent"):
        check_library(_case(_Unexported), FIXED, lambda step: None)


@pytest.mark.conformance
@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_models_equal_eager(case: ModelCase) -> None:
    for result in tool.run_libraries([(case.name, statement) for statement in STATEMENTS], timeout=1200):
        assert not result["error"], result
