"""Compares a run with the model itself, node by node."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.eager import EagerRun
from wrapper_ir.plugins.protocols import Machine
from wrapper_ir_runtime.binding import signature_call
from wrapper_ir_runtime.tensor_text import TensorView
from wrapper_ir_tools.debugger.compare import Comparison, Mismatch
from wrapper_ir_tools.debugger.contents import Content
from wrapper_ir_tools.debugger.samples import Sample, samples
from wrapper_ir_tools.debugger.subject import Subject
from wrapper_ir_tools.debugger.suspects import AGREES, Suspects, Verdict
from wrapper_ir_tools.debugger.tolerances import Tolerance, compare_contents

# Any in this file: the machine's tensors


class _Grabbed(Exception):
    """Carries the flat arguments out of a call."""


def flat_arguments(
    artifact: Artifact, machine: Machine[Any], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> list[object]:
    """Returns the flat arguments of `main` for a call of the model; raises the errors of an invalid call."""
    arguments: list[object] = []

    def grab(flat: list[object]) -> tuple[object, ...]:
        arguments.extend(flat)
        raise _Grabbed

    with suppress(_Grabbed):
        signature_call(artifact.signature, grab, machine.caller)(*args, **kwargs)
    return arguments


def compare_with_eager(subject: Subject, eager: EagerRun, tolerance: Tolerance | None = None) -> Comparison:
    """Finds the first op whose value differs from its node's.

    A value must agree with one of its source nodes if the first of them has its element type and number of
    elements, in row-major order: views preserve that. Compilers also store intermediate values that no node
    has under a node's name (the sum of squares of a variance). A difference therefore counts once an op that
    reads it, or the result, differs too. All values of the model's nodes are in memory at once.
    """
    nodes: dict[str, list[object]] = {}
    for entry in eager.values():
        nodes.setdefault(entry.node, []).append(entry.value)
    suspects = Suspects(subject)
    matched = unmatched = 0
    try:
        for _, group in itertools.groupby(samples(subject), lambda s: (s.function, s.position, s.key[2])):
            op_samples = list(group)
            verdicts = [_against_nodes(s, nodes, subject.machine, tolerance) for s in op_samples]
            matched += sum(v is not None for v in verdicts)
            unmatched += sum(v is None for v in verdicts)
            confirmed = suspects.add(op_samples[0], verdicts)
            if confirmed is not None:
                return Comparison(matched=matched, mismatch=confirmed)
    except Exception as error:
        return Comparison(matched=matched, unmatched=(unmatched, 0), failed=1, failure=error)
    return Comparison(matched=matched, mismatch=suspects.at_end(), unmatched=(unmatched, 0))


def _against_nodes(
    sample: Sample, nodes: Mapping[str, list[object]], machine: Machine[Any], tolerance: Tolerance | None
) -> Verdict:
    """AGREES if the value is a node's, a mismatch if it should be but differs, None if no node is
    comparable."""
    first: Mismatch | None = None
    for rank, name in enumerate(sample.nodes):
        for data in nodes.get(name, ()):
            content = _content(data, sample, machine)
            if content is None:
                continue
            difference = compare_contents(sample.content, content, tolerance)
            if difference is None:
                return AGREES
            if rank == 0 and first is None:
                first = Mismatch(sample, Sample(key=("", name, 0), content=content), difference)
    return first


def _content(data: Any, sample: Sample, machine: Machine[Any]) -> Content | None:
    """A node's value in the layout of the sample; None if it is a different kind of value."""
    want = sample.content.data
    if not isinstance(want, TensorView):
        return None if machine.is_tensor(data) else Content(data)
    if not machine.is_tensor(data) or math.prod(machine.sizes(data)) != want.elements:
        return None
    facts = machine.caller.facts(data)
    if ir.DType(facts.dtype) is not want.dtype:
        return None
    return Content(replace(want, data=machine.data(data).buffer))


def constants_against_eager(artifact: Artifact, eager: EagerRun, machine: Machine[Any]) -> tuple[str, ...]:
    """One line for each constant that differs from the model's tensor of its name."""
    lines: list[str] = []
    for constant in artifact.program.constants:
        name = next((n for n in (constant.value.name, *constant.names) if n in eager.constants), None)
        data = artifact.data_of(constant)
        if name is None or data is None:
            continue
        type = constant.value.type
        assert isinstance(type, ir.TensorType)
        stored = machine.data(machine.constant(data, type, False, 1))
        if stored.buffer.cast("B") != machine.data(eager.constants[name]).buffer.cast("B"):
            lines.append(f"constant %{constant.value.name} differs from the model's {name}")
    return tuple(lines)
