"""A compiled graph between the streams of its caller.

A program queues on streams of its own. The streams that the model named are held back around it: what was queued on them
before is done when the program begins, and what comes after waits for its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor_frontend.scope.outer_streams import OuterStreams

# Any: tensors and numbers of any graph.
Boxed = Callable[[list[Any]], Sequence[Any]]


def between_streams(run: Boxed, outer: OuterStreams) -> Boxed:
    """`run`, in order with what the caller queues on the streams that the graph names, and with its events."""
    # torch 2.11 has none, and graphs of it name no streams
    from torch._dynamo.graph_bytecode_inputs import get_external_object_by_index

    def call(args: list[Any]) -> Sequence[Any]:
        current = torch.cuda.current_stream()  # torch.cuda's events take only its own streams
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
