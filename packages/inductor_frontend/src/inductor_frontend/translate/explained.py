"""What an artifact carries for explanations: the text of source lines, and choices that the capture's options made."""

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
"""The extension with the graph that autograd gave to the compiler, as Python."""
CAPTURED = "captured.txt"
"""The extension with the program as captured, without its kernels."""
DYNAMO_NODES = "dynamo_nodes.json"
"""The extension with the nodes of Dynamo's graph that each node of the lowered graph comes from: an object of lists."""
PIPELINE = "inductor_frontend.passes"
"""The metadata with the pipeline of passes that was run."""

_WITH_TEMPLATES = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution"})
"""Operators that Inductor has Triton templates for."""
_SUBJECT = "matmuls and convolutions"


def explaining_extensions(
    program: ir.Program,
    sources: Mapping[str, str],
    options: CaptureOptions,
    decisions: Sequence[MatmulDecision] = (),
) -> dict[str, str]:
    """The artifact's extensions by name; one that would be empty is left out. `decisions` are about the matmuls that might
    have been split."""
    found: dict[str, str] = {}
    if sources:
        found[SOURCES] = json.dumps(dict(sorted(sources.items())), ensure_ascii=False)
    matmuls = sorted(e.name for e in program.externs if e.name.partition(".")[0] in _WITH_TEMPLATES)
    if matmuls:
        device = program.target.device.type
        chosen = _split(decisions) if decisions and device != "cpu" else _matmuls(options, device)
        found[CHOICES] = choices_json([(chosen, matmuls)])
    return found


def stage_extensions(
    aot_graph: str, captured: ir.Program, dynamo_nodes: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """What the final program was made from, for those who look at a compilation."""
    return {
        AOT_GRAPH: aot_graph,
        CAPTURED: print_program(replace(captured, kernels=())),
        DYNAMO_NODES: json.dumps(dynamo_nodes),
    }


def _split(decisions: Sequence[MatmulDecision]) -> Choice:
    """A candidate for matmuls of the same sizes with the same outcome, with the names of their nodes."""
    nodes: dict[tuple[str, str, bool], list[str]] = {}
    for one in decisions:
        nodes.setdefault((one.sizes, one.outcome, one.parts > 1), []).append(one.node)
    count = sum(one.parts > 1 for one in decisions)
    return Choice(
        subject=_SUBJECT,
        why=f"the capture's option matmuls='split': {count} of {len(decisions)} matmuls are sums of parts",
        candidates=tuple(
            Candidate(name=f"{sizes}: {outcome}", chosen=chosen, detail=", ".join(names))
            for (sizes, outcome, chosen), names in nodes.items()
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
