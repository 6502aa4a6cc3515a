"""Streams and events of devices that have them. On the host everything has happened when its call returns."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

__all__ = ["enter_stream", "exit_stream", "record_event", "sync_event", "wait_event"]

# Any: each device type has its own classes of streams and events.


@lru_cache(maxsize=256)
def _numbered(device: str, stream: int) -> Any:
    """The stream of this number, the same in every call of this process."""
    return _module(device).Stream(device)


def _module(device: str) -> Any:
    return getattr(torch, device.partition(":")[0])  # torch.cuda, torch.xpu


def _stream(device: str, stream: int) -> Any:
    return _numbered(device, stream) if stream else _module(device).current_stream(device)


def enter_stream(device: str, stream: int) -> Any:
    """Makes a stream the current one of its device; what it returns ends that."""
    context = _module(device).stream(_numbered(device, stream))
    context.__enter__()
    return context


def exit_stream(context: Any) -> None:
    """Ends what `enter_stream` began."""
    context.__exit__(None, None, None)


def record_event(device: str, stream: int) -> Any:
    """An event that happens when the stream has done all that was queued before; None on the host."""
    if device == "cpu":
        return None
    event = _module(device).Event()
    event.record(_stream(device, stream))
    return event


def wait_event(event: Any, device: str, stream: int) -> None:
    """Makes the stream wait for the event; the host goes on."""
    if event is not None and device != "cpu":
        _stream(device, stream).wait_event(event)


def sync_event(event: Any) -> None:
    """Makes the host wait for the event."""
    if event is not None:
        event.synchronize()
