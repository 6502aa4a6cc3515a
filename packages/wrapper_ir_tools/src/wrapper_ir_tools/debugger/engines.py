"""Samples of runs of emitted programs that return the intermediate values of `main`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import Emitter, Machine
from wrapper_ir.verifier import verify
from wrapper_ir_tools.debugger.contents import content_of
from wrapper_ir_tools.debugger.samples import Sample
from wrapper_ir_tools.debugger.subject import InputChoice, chosen_inputs
from wrapper_ir_tools.debugger.taps import tap_windows, tapped

TAP_BYTES = 2**30


# Any: the emitter's code, the machine's tensors
def engine_samples(
    artifact: Artifact,
    emitter: Emitter[Any],
    machine: Machine[Any],
    inputs: InputChoice,
    tap_bytes: int = TAP_BYTES,
) -> Iterator[Sample]:
    """Yields the values that `main` computes in the emitter's engine, in order.

    The program is recompiled for each `tap_bytes` of values. Values that callees compute are not included.
    Raises the errors of the emitter.
    """
    main = artifact.program.main
    for taps in tap_windows(artifact.program, tap_bytes, inputs.symbols):
        program = tapped(artifact, taps)
        verify(program)
        call = emitter.compile(program).boxed
        results = call(chosen_inputs(artifact.program, machine, inputs))
        for tap, data in zip(taps, results[len(results) - len(taps) :], strict=True):
            yield Sample(
                key=(main.name, f"%{tap.value.name}", tap.count),
                content=content_of(tap.value, data, machine),
                function=main,
                position=tap.position,
                nodes=main.body[tap.position].prov.nodes,
            )
