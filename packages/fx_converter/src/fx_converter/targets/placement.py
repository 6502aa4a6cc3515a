"""Devices, the streams and events of those that have them, and the scopes of profilers and memory pools. On the host
everything has happened when its call returns."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from fx_converter._compat import DEVICE_GUARDS, has_effect
from wrapper_ir_runtime import use_memory_pool

# Any: each device type has its own classes of guards, streams and events.


@dataclass(slots=True, eq=False)
class Entered:
    """A device or a stream that is the current one until this is left, or no variable has it: Ctrl-C may be raised before one does."""

    context: Any

    def __del__(self) -> None:
        self.leave()

    def leave(self) -> None:
        """Ends it, once."""
        context, self.context = self.context, None
        if context is not None:
            context.__exit__(None, None, None)


def leave(variables: Mapping[str, object]) -> None:
    """Ends what a function has entered and not left, as its variables say, the last one first."""
    for held in reversed(tuple(variables.values())):
        if isinstance(held, Entered):
            held.leave()


@has_effect
def enter_device(device: str) -> Entered:
    """Makes a device the current one of its type; `exit_device` ends that. Nothing happens where graphs are traced, and in a
    process that has no device of this type, which can do no more."""
    if torch.compiler.is_compiling():
        return Entered(None)
    kind, _, index = device.partition(":")
    guard = DEVICE_GUARDS.get(kind) or _module(device).device
    context = guard(int(index))
    try:
        context.__enter__()
    except RuntimeError:
        if _module(device).is_available():
            raise
        context = None
    return Entered(context)


@has_effect
def exit_device(entered: Entered) -> None:
    """Ends what `enter_device` began."""
    entered.leave()


@lru_cache(maxsize=256)
def _numbered(device: str, stream: int) -> Any:
    """The stream of this number, the same in every call of this process."""
    return _module(device).Stream(device)


def _module(device: str) -> Any:
    return getattr(torch, device.partition(":")[0])  # torch.cuda, torch.xpu


def _stream(device: str, stream: int) -> Any:
    return _numbered(device, stream) if stream else _module(device).current_stream(device)


@has_effect
def enter_stream(device: str, stream: int) -> Entered:
    """Makes a stream the current one of its device; `exit_stream` ends that."""
    context = _module(device).stream(_numbered(device, stream))
    context.__enter__()
    return Entered(context)


@has_effect
def exit_stream(entered: Entered) -> None:
    """Ends what `enter_stream` began."""
    entered.leave()


@has_effect
def record_event(device: str, stream: int) -> Any:
    """An event that happens when the stream has done all that was queued before; None on the host."""
    if device == "cpu":
        return None
    event = _module(device).Event()
    event.record(_stream(device, stream))
    return event


@has_effect
def wait_event(event: Any, device: str, stream: int) -> None:
    """Makes the stream wait for the event; the host goes on."""
    if event is not None and device != "cpu":
        _stream(device, stream).wait_event(event)


@has_effect
def barrier() -> None:
    """Keeps the order of calls with effects."""


@has_effect
def sync_event(event: Any) -> None:
    """Makes the host wait for the event."""
    if event is not None:
        event.synchronize()


@has_effect
def enter_profile(name: str, details: str = "") -> Entered:
    """Begins a scope that profilers show; `exit_scope` ends it."""
    return _entered(torch.profiler.record_function(name, details or None))


@has_effect
def enter_memory_pool(name: str, device: str) -> Entered:
    """Makes memory of `device` come from the process's pool of this name; `exit_scope` ends that. Nothing happens where
    graphs are traced."""
    return Entered(None) if torch.compiler.is_compiling() else _entered(use_memory_pool(torch, name, device))


def _entered(context: AbstractContextManager[object]) -> Entered:
    context.__enter__()
    return Entered(context)


@has_effect
def exit_scope(entered: Entered) -> None:
    """Ends what the node began."""
    entered.leave()
