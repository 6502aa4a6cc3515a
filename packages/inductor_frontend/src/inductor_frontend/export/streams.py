"""Traces a model's uses of torch.cuda streams and events into the graph of torch.export.

torch.export runs such calls without recording them. Here, nodes are annotated with the number of their
stream, and calls that order streams become nodes, both as in Dynamo's graphs. Number 0 is the stream that is
current when the program is called.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.fx.traceback import annotate, preserve_node_meta

from inductor_frontend.errors import CaptureError
from inductor_frontend.torch_patches._compat import ORDERS_STREAMS
from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import (
    CUDA_CLASSES,
    CUDA_CONTEXTS,
    CUDA_EVENTS,
    CUDA_FUNCTIONS,
    CUDA_MEMORY,
    CUDA_STREAMS,
)

# Any in this file: streams and events of torch.cuda, and their stand-ins.


class _StandInStream:
    """A stream of an absent device. Subclasses have the methods that replace those of torch.cuda."""

    def __init__(self, device: object = None, priority: int = 0, **_: object) -> None:
        self.device = torch.device("cuda", 0)
        self.priority = priority

    def __enter__(self) -> _StandInStream:
        entered: Any = torch.cuda.stream(self)  # type: ignore[arg-type]  # stands in for one
        entered.__enter__()
        self._entered = entered
        return self

    def __exit__(self, *error: object) -> None:
        self._entered.__exit__(*error)


class _StandInEvent:
    """An event of an absent device."""

    def __init__(self, *_: object, **__: object) -> None:
        self.device = torch.device("cuda", 0)


class _Trace:
    """The streams and events of one trace, numbered in order of first use. Stream 0 is current when it
    begins."""

    def __init__(self) -> None:
        self._streams: list[object] = []
        self._events: list[object] = []
        self._entered: list[tuple[object, ExitStack]] = []

    def current(self, *_: object, **__: object) -> object:
        """Returns the current stream."""
        return self._entered[-1][0] if self._entered else self._streams[0]

    def begin(self, current: object) -> None:
        """Sets the stream that is current when the trace begins."""
        self._streams.append(current)

    def enter(self, context: Any) -> None:
        """Traces the entry of `with torch.cuda.stream(s):`."""
        stream = self.current() if context.stream is None else context.stream
        with ExitStack() as stack:
            stack.enter_context(preserve_node_meta())
            stack.enter_context(annotate({"stream": self._number(stream)}))
            self._entered.append((stream, stack.pop_all()))

    def exit(self, context: object, *error: object) -> None:
        """Traces the exit of `with torch.cuda.stream(s):`."""
        _, annotation = self._entered.pop()
        annotation.close()

    def record(self, event: object, stream: object = None) -> None:
        """Traces `event.record(stream)`."""
        torch.ops.streams.record_event(self._event(event), self._number(stream or self.current()))

    def record_event(self, stream: object, event: object = None) -> object:
        """Traces `stream.record_event(event)`."""
        event = torch.cuda.Event() if event is None else event  # type: ignore[no-untyped-call]  # torch's own
        self.record(event, stream)
        return event

    def wait(self, event: object, stream: object = None) -> None:
        """Traces `event.wait(stream)`."""
        torch.ops.streams.wait_event(self._event(event), self._number(stream or self.current()))

    def wait_event(self, stream: object, event: object) -> None:
        """Traces `stream.wait_event(event)`."""
        self.wait(event, stream)

    def wait_stream(self, stream: object, other: object) -> None:
        """Traces `stream.wait_stream(other)`."""
        torch.ops.streams.wait_stream(self._number(stream), self._number(other))

    def synchronize_event(self, event: object) -> None:
        """Traces `event.synchronize()`."""
        torch.ops.streams.synchronize_event(self._event(event))

    def synchronize_stream(self, stream: object) -> None:
        """Traces `stream.synchronize()`."""
        torch.ops.streams.synchronize_stream(self._number(stream))

    def synchronize_device(self, device: Any = None) -> None:
        """Traces `torch.cuda.synchronize()`."""
        index = torch.device(device).index if isinstance(device, str | torch.device) else device
        torch.ops.streams.synchronize_device("cuda", index or 0)

    def query(self, what: str) -> bool:
        """Raises CaptureError FE101: the result depends on the time of the call."""
        raise CaptureError(
            "FE101",
            f"the model queries whether a {what} has finished, which depends on the time of the call",
            hint="wait for it instead",
        )

    def _number(self, stream: object) -> int:
        return _place(self._streams, stream)

    def _event(self, event: object) -> int:
        return _place(self._events, event)


def _place(items: list[object], item: object) -> int:
    """Returns the position of `item`, by identity or equality; appends it if it is missing."""
    for number, other in enumerate(items):
        if other is item or other == item:
            return number
    items.append(item)
    return len(items) - 1


@contextmanager
def traced_streams(device: torch.device | None) -> Iterator[None]:
    """Traces torch.cuda streams and events of this thread into the graph.

    With a `device`, which may be absent, the model can also create streams and events.
    """
    here = torch.cuda.is_available() and device is None
    if not ORDERS_STREAMS or not (here or (device is not None and device.type == "cuda")):
        yield
        return
    trace = _Trace()
    streams, events = _stream_methods(trace), _event_methods(trace)
    changes = [
        CUDA_FUNCTIONS.by(current_stream=trace.current, synchronize=trace.synchronize_device),
        CUDA_CONTEXTS.by(
            __enter__=lambda self: trace.enter(self), __exit__=lambda self, *error: trace.exit(self, *error)
        ),
        CUDA_STREAMS.by(**streams),
        CUDA_EVENTS.by(**events),
        CUDA_MEMORY.by(record_stream=lambda self, stream: None),
    ]
    if device is None:
        trace.begin(torch.cuda.current_stream())
    else:
        stream, event = type("Stream", (_StandInStream,), streams), type("Event", (_StandInEvent,), events)
        trace.begin(stream())
        changes.append(CUDA_CLASSES.by(Stream=stream, Event=event))
    with replaced(*changes):
        yield


def _stream_methods(trace: _Trace) -> dict[str, object]:
    return {
        "wait_event": lambda self, event: trace.wait_event(self, event),
        "wait_stream": lambda self, stream: trace.wait_stream(self, stream),
        "record_event": lambda self, event=None: trace.record_event(self, event),
        "synchronize": lambda self: trace.synchronize_stream(self),
        "query": lambda self: trace.query("stream"),
    }


def _event_methods(trace: _Trace) -> dict[str, object]:
    return {
        "record": lambda self, stream=None: trace.record(self, stream),
        "wait": lambda self, stream=None: trace.wait(self, stream),
        "synchronize": lambda self: trace.synchronize_event(self),
        "query": lambda self: trace.query("event"),
    }
