"""Explanations of models: forward and backward, graph breaks, state restored by `explain`; torch's trace."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from packages.inductor_frontend.tests.explained_model import BREAK_LINE, FIRST_LINE, TwoParts
from torch._logging._internal import trace_log

from inductor_frontend import ModelExplanation, capture, explain
from inductor_frontend.backend import lowered
from inductor_frontend.errors import FallbackWarning
from wrapper_ir.errors import NotSupportedError
from wrapper_ir_tools.explain import Lead, explain_artifact, find_ops

OPTIONS = {"cache": False}
MODEL = "packages/inductor_frontend/tests/explained_model.py"


@pytest.fixture(scope="module")
def explained() -> ModelExplanation:
    model = TwoParts()
    torch.manual_seed(0)
    state = torch.get_rng_state()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    explanation = explain(
        model, (torch.randn(8, 16, generator=torch.Generator().manual_seed(0)),), options=OPTIONS
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    return explanation


def test_graphs_breaks_and_guards(explained: ModelExplanation) -> None:
    assert sorted(g.name for g in explained.graphs) == [
        "0/0 backward",
        "0/0 forward",
        "1/0 backward",
        "1/0 forward",
    ]
    (split,) = explained.breaks
    assert split.sources[0].endswith(f"explained_model.py:{BREAK_LINE}")
    assert set(explained.guards) == {"0/0", "1/0"}
    text = str(explained)
    for part in ("graph 0/0 backward", "split of a Dynamo graph: ", "guards of 1/0"):
        assert part in text
    data = json.loads(explained.to_json())
    assert sorted(data) == ["breaks", "graphs", "guards", "lacks"]


def _graph(explained: ModelExplanation, name: str) -> int:
    return next(i for i, g in enumerate(explained.graphs) if g.name == name)


def test_every_op_leads_to_a_line(explained: ModelExplanation) -> None:
    assert (explained.share.share, explained.share.op_share) == (1.0, 1.0)
    for name in ("0/0 forward", "0/0 backward"):
        graph = explained.graphs[_graph(explained, name)]
        lines = {s for op in graph.ops for s in op.sources}
        assert f"{MODEL}:{FIRST_LINE}" in lines
        assert graph.source_texts[f"{MODEL}:{FIRST_LINE}"] == "y = torch.relu(self.norm(self.first(x)))"
        assert any(op.kernel for op in find_ops(graph, f"explained_model.py:{FIRST_LINE}"))


def test_saved_tensors_lead_to_the_forward_graph(explained: ModelExplanation) -> None:
    backward = explained.graphs[_graph(explained, "1/0 backward")]
    saved = [op for op in backward.ops if op.lead is Lead.FORWARD]
    assert saved
    assert all(op.sources and "which the forward graph saved" in op.reason for op in saved)


def test_an_artifact_has_the_text_of_its_lines_and_its_choices() -> None:
    artifact = capture(torch.nn.Sequential(torch.nn.Linear(4, 4)), (torch.ones(2, 4),))
    explanation = explain_artifact(artifact, ())
    assert "return F.linear(input, self.weight, self.bias)" in explanation.source_texts.values()
    (choice,) = [c for c in explanation.choices if c.ops]
    assert choice.subject == "matmuls and convolutions"
    assert [explanation.ops[n].extern for n in choice.ops] == ["aten::addmm.out"]


def test_graphs_that_inductor_compiled_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise NotSupportedError("WIR910", "not here")

    monkeypatch.setattr(lowered, "compile_anew", refused)
    options = {**OPTIONS, "on_unsupported": "inductor"}
    with pytest.warns(FallbackWarning):
        explanation = explain(torch.expm1, (torch.ones(3),), options=options)
    assert (explanation.graphs, len(explanation.lacks)) == ((), 1)
    assert "1 graphs that Inductor compiled itself" in explanation.lacks[0]


@contextmanager
def _traced() -> Iterator[list[logging.LogRecord]]:
    records: list[logging.LogRecord] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Keeping()
    trace_log.addHandler(handler)
    try:
        yield records
    finally:
        trace_log.removeHandler(handler)


def test_the_trace_has_programs_and_explanations() -> None:
    torch._dynamo.reset()
    with _traced() as records:
        torch.compile(torch.erf, backend="wrapper_ir", options={"cache": False})(torch.ones(3))
    payloads = {}
    for record in records:
        about = getattr(record, "metadata", {}).get("artifact", {})
        if str(about.get("name", "")).startswith("wrapper_ir_"):
            metadata = record.metadata  # type: ignore[attr-defined]  # added by torch
            payloads[about["name"]] = (about["encoding"], str(getattr(record, "payload", "")), metadata)
    assert {name: encoding for name, (encoding, _, _) in payloads.items()} == {
        "wrapper_ir_inference_captured": "string",
        "wrapper_ir_inference_program": "string",
        "wrapper_ir_inference_explanation": "string",
        "wrapper_ir_inference_explanation_data": "json",
    }
    assert "func @main" in payloads["wrapper_ir_inference_program"][1]
    assert all(metadata["frame_id"] == 0 for _, _, metadata in payloads.values())
