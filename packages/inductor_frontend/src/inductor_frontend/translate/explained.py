"""Extensions of an artifact for explanations: the text of source lines, and decisions of the capture's
options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from inductor_frontend.options import CaptureOptions
from inductor_frontend.record.split_rule import MatmulDecision
from wrapper_ir import ir
from wrapper_ir.artifact.choices import CHOICES, Candidate, Choice, choices_json
from wrapper_ir.artifact.sources import SOURCES
from wrapper_ir.text import print_program

AOT_GRAPH = "aot_graph.py"
"""Extension with the graph that autograd passed to the compiler, as Python."""
CAPTURED = "captured.txt"
"""Extension with the program as captured, without its kernels."""
DYNAMO_NODES = "dynamo_nodes.json"
"""Extension with the nodes of Dynamo's graph from which each node of the lowered graph originates: an object
of lists."""
PIPELINE = "inductor_frontend.passes"
"""Metadata with the pipeline of passes that was run."""

_WITH_TEMPLATES = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution"})
"""Operators for which Inductor has Triton templates."""
_SUBJECT = "matmuls and convolutions"


def explaining_extensions(
    program: ir.Program,
    sources: Mapping[str, str],
    options: CaptureOptions,
    decisions: Sequence[MatmulDecision] = (),
) -> dict[str, str]:
    """Returns the artifact's extensions by name, without empty ones. `decisions` concern matmuls that could
    be split."""
    extensions: dict[str, str] = {}
    if sources:
        extensions[SOURCES] = json.dumps(dict(sorted(sources.items())), ensure_ascii=False)
    matmuls = sorted(e.name for e in program.externs if e.name.partition(".")[0] in _WITH_TEMPLATES)
    if matmuls:
        device = program.target.device.type
        choice = _split(decisions) if decisions and device != "cpu" else _matmuls(options, device)
        extensions[CHOICES] = choices_json([(choice, matmuls)])
    return extensions


def stage_extensions(
    aot_graph: str, captured: ir.Program, dynamo_nodes: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """Returns the earlier stages of the final program, for users who inspect a compilation."""
    return {
        AOT_GRAPH: aot_graph,
        CAPTURED: print_program(replace(captured, kernels=())),
        DYNAMO_NODES: json.dumps(dynamo_nodes),
    }


def _split(decisions: Sequence[MatmulDecision]) -> Choice:
    """Groups matmuls of the same sizes and outcome to candidates, with the names of their nodes."""
    nodes: dict[tuple[str, str, bool], list[str]] = {}
    for decision in decisions:
        nodes.setdefault((decision.sizes, decision.outcome, decision.parts > 1), []).append(decision.node)
    count = sum(decision.parts > 1 for decision in decisions)
    return Choice(
        subject=_SUBJECT,
        why=f"the capture's option matmuls='split': {count} of {len(decisions)} matmuls are sums of parts",
        candidates=tuple(
            Candidate(name=f"{sizes}: {outcome}", chosen=is_split, detail=", ".join(names))
            for (sizes, outcome, is_split), names in nodes.items()
        ),
    )


def _matmuls(options: CaptureOptions, device: str) -> Choice:
    operator = Candidate(name="the library's operator", chosen=True)
    if device == "cpu" and options.cpu_kernels == "cpp":
        why = "matmuls and convolutions on a CPU are the library's operators: nothing else is offered"
        return Choice(subject=_SUBJECT, why=why, candidates=(operator,))
    template = Candidate(
        name="a Triton template", detail="offered with matmuls='templates' or matmuls='candidates'"
    )
    if options.matmuls in ("extern", "split"):
        why = f"the capture's option matmuls={options.matmuls!r}: operators, without measuring"
    else:
        why = f"matmuls={options.matmuls!r}: Inductor has no template that fits these calls"
    return Choice(subject=_SUBJECT, why=why, candidates=(operator, template))
