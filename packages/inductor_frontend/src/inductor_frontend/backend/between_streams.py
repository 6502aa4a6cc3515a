"""Orders a compiled graph with the streams of its caller.

A program queues on streams that it creates. The streams that the model names are synchronized around it: the
program starts after the work that was queued on them before, and later work on them waits for the end of the
program.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from inductor_frontend.boxed import Boxed
from inductor_frontend.scope.outer_streams import OuterStreams


def between_streams(run: Boxed, outer: OuterStreams) -> Boxed:
    """Returns `run`, ordered with the caller's work on the streams that the graph names, and with its
    events."""
    # torch 2.11 lacks the module; its graphs name no streams
    from torch._dynamo.graph_bytecode_inputs import get_external_object_by_index

    def call(args: list[object]) -> Sequence[object]:
        current = torch.cuda.current_stream()  # torch.cuda's events accept only torch.cuda streams
        streams = [get_external_object_by_index(n) for n in outer.streams]
        for stream in streams:
            current.wait_stream(stream)
        for number in outer.awaited:
            current.wait_event(get_external_object_by_index(number))
        results = run(args)
        for stream in streams:
            stream.wait_stream(current)
        for number in outer.recorded:
            get_external_object_by_index(number).record(current)
        return results

    return call
