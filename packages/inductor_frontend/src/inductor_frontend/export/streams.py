"""Streams of a model: while torch.export traces it, what it says with torch.cuda.stream and events enters the graph.

torch.export runs such calls, and forgets them. Here nodes are marked with the number of their stream, and what orders
streams become nodes, both as upstream's other tracer has them. Number 0 is the stream that is current when the program
is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch.fx.traceback import annotate, preserve_node_meta

from inductor_frontend.errors import CaptureError
from inductor_frontend.torch_patches._compat import ORDERS_STREAMS

__all__ = ["traced_streams"]

# Any in this file: streams and events, those of torch.cuda and those that stand in for them.


class _StandInStream:
    """A stream of a device that is not here. Methods are replaced like those of torch.cuda's own class."""

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device = torch.device("cuda", 0)
        self.priority = priority

    def __enter__(self) -> _StandInStream:
        entered: Any = torch.cuda.stream(self)  # type: ignore[arg-type]  # stands in for one
        entered.__enter__()
        self._entered = entered
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.__exit__(*error)


class _StandInEvent:
    """An event of a device that is not here."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = torch.device("cuda", 0)


class _Trace:
    """The streams and events of one trace, numbered as they are met."""

    def __init__(self, current: Any) -> None:
        self._streams: list[Any] = [current]
        self._events: list[Any] = []
        self._entered: list[tuple[Any, ExitStack]] = []

    def current(self, *_: Any, **__: Any) -> Any:
        """The stream that work is queued on."""
        return self._entered[-1][0] if self._entered else self._streams[0]

    def enter(self, context: Any) -> None:
        """`with torch.cuda.stream(s):`"""
        stream = self.current() if context.stream is None else context.stream
        with ExitStack() as stack:
            stack.enter_context(preserve_node_meta())
            stack.enter_context(annotate({"stream": self._number(stream)}))
            self._entered.append((stream, stack.pop_all()))

    def exit(self, context: Any, *error: Any) -> None:
        """Its end."""
        _, marked = self._entered.pop()
        marked.close()

    def record(self, event: Any, stream: Any = None) -> None:
        """`event.record(stream)`"""
        torch.ops.streams.record_event(self._event(event), self._number(stream or self.current()))

    def record_event(self, stream: Any, event: Any = None) -> Any:
        """`stream.record_event(event)`"""
        event = torch.cuda.Event() if event is None else event  # type: ignore[no-untyped-call]  # torch's own
        self.record(event, stream)
        return event

    def wait(self, event: Any, stream: Any = None) -> None:
        """`event.wait(stream)`"""
        torch.ops.streams.wait_event(self._event(event), self._number(stream or self.current()))

    def wait_event(self, stream: Any, event: Any) -> None:
        """`stream.wait_event(event)`"""
        self.wait(event, stream)

    def wait_stream(self, stream: Any, other: Any) -> None:
        """`stream.wait_stream(other)`"""
        torch.ops.streams.wait_stream(self._number(stream), self._number(other))

    def synchronize_event(self, event: Any) -> None:
        """`event.synchronize()`"""
        torch.ops.streams.synchronize_event(self._event(event))

    def synchronize_stream(self, stream: Any) -> None:
        """`stream.synchronize()`"""
        torch.ops.streams.synchronize_stream(self._number(stream))

    def synchronize_device(self, device: Any = None) -> None:
        """`torch.cuda.synchronize()`"""
        index = torch.device(device).index if isinstance(device, str | torch.device) else device
        torch.ops.streams.synchronize_device("cuda", index or 0)

    def query(self, what: str) -> bool:
        """Refuses a question whose answer depends on the moment."""
        raise CaptureError(
            "FE101",
            f"the model asks whether a {what} has finished, which each call answers anew",
            hint="wait for it instead",
        )

    def _number(self, stream: Any) -> int:
        return _place(self._streams, stream)

    def _event(self, event: Any) -> int:
        return _place(self._events, event)


def _place(known: list[Any], wanted: Any) -> int:
    for number, one in enumerate(known):
        if one is wanted or one == wanted:
            return number
    known.append(wanted)
    return len(known) - 1


@contextmanager
def traced_streams(device: torch.device | None) -> Iterator[None]:
    """For its length, the streams and events of torch.cuda that this thread traces are part of the graph. With a
    `device`, which need not be here, the model may make such."""
    here = torch.cuda.is_available() and device is None
    if not ORDERS_STREAMS or not (here or (device is not None and device.type == "cuda")):
        yield
        return
    owners: list[tuple[type[Any], type[Any]]] = [(torch.cuda.Stream, torch.cuda.Event)]
    with ExitStack() as stack:
        if device is not None:
            owners.append((_StandInStream, _StandInEvent))
            stack.enter_context(mock.patch.object(torch.cuda, "Stream", _StandInStream))
            stack.enter_context(mock.patch.object(torch.cuda, "Event", _StandInEvent))
        trace = _Trace(torch.cuda.current_stream() if here else _StandInStream())
        for owner, name, method in _replaced(trace, owners):
            stack.enter_context(mock.patch.object(owner, name, method, create=True))
        yield


def _replaced(trace: _Trace, owners: Iterable[tuple[type[Any], type[Any]]]) -> Iterator[tuple[Any, str, Any]]:
    yield torch.cuda, "current_stream", trace.current
    yield torch.cuda, "synchronize", trace.synchronize_device
    yield torch.cuda.StreamContext, "__enter__", lambda self: trace.enter(self)
    yield torch.cuda.StreamContext, "__exit__", lambda self, *error: trace.exit(self, *error)
    for stream, event in owners:
        yield stream, "wait_event", lambda self, event: trace.wait_event(self, event)
        yield stream, "wait_stream", lambda self, stream: trace.wait_stream(self, stream)
        yield stream, "record_event", lambda self, event=None: trace.record_event(self, event)
        yield stream, "synchronize", lambda self: trace.synchronize_stream(self)
        yield stream, "query", lambda self: trace.query("stream")
        yield event, "record", lambda self, stream=None: trace.record(self, stream)
        yield event, "wait", lambda self, stream=None: trace.wait(self, stream)
        yield event, "synchronize", lambda self: trace.synchronize_event(self)
        yield event, "query", lambda self: trace.query("event")
    # memory that several streams use is kept until the end
    yield torch.Tensor, "record_stream", lambda self, stream: None
