"""Devices, their streams and events, and the scopes of profilers and memory pools. Calls on the host are
synchronous."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

import torch

from fx_converter._compat import DEVICE_GUARDS, has_effect
from wrapper_ir_runtime import use_memory_pool


@dataclass(slots=True, eq=False)
class Entered:
    """A device or a stream that is current until `leave`, or until no variable refers to this object: Ctrl-C
    may be raised before one does."""

    context: AbstractContextManager[object] | None

    def __del__(self) -> None:
        self.leave()

    def leave(self) -> None:
        """Leaves the context, once."""
        context, self.context = self.context, None
        if context is not None:
            context.__exit__(None, None, None)


def leave(variables: Mapping[str, object]) -> None:
    """Leaves the contexts among a function's variables that it has entered, the last one first."""
    for value in reversed(tuple(variables.values())):
        if isinstance(value, Entered):
            value.leave()


@has_effect
def enter_device(device: str) -> Entered:
    """Makes the device current for its type until `exit_device`. It does nothing in a trace, or in a process
    without devices of this type."""
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
    """Leaves the device."""
    entered.leave()


@lru_cache(maxsize=256)
def _numbered(device: str, stream: int) -> torch.Stream:
    """Returns the stream with this number, the same in every call of this process."""
    created: torch.Stream = _module(device).Stream(device)
    return created


def _module(device: str) -> ModuleType:
    module: ModuleType = getattr(torch, device.partition(":")[0])  # torch.cuda, torch.xpu
    return module


def _stream(device: str, number: int) -> torch.Stream:
    stream: torch.Stream = _numbered(device, number) if number else _module(device).current_stream(device)
    return stream


@has_effect
def enter_stream(device: str, stream: int) -> Entered:
    """Makes the stream current for its device until `exit_stream`."""
    context = _module(device).stream(_numbered(device, stream))
    context.__enter__()
    return Entered(context)


@has_effect
def exit_stream(entered: Entered) -> None:
    """Leaves the stream."""
    entered.leave()


@has_effect
def record_event(device: str, stream: int) -> torch.Event | None:
    """Records an event after the work queued on the stream; returns None on the host."""
    if device == "cpu":
        return None
    event: torch.Event = _module(device).Event()
    event.record(_stream(device, stream))
    return event


@has_effect
def wait_event(event: torch.Event | None, device: str, stream: int) -> None:
    """Makes the stream wait for the event; the host continues."""
    if event is not None and device != "cpu":
        _stream(device, stream).wait_event(event)


@has_effect
def barrier() -> None:
    """Keeps the order of calls with effects."""


@has_effect
def sync_event(event: torch.Event | None) -> None:
    """Makes the host wait for the event."""
    if event is not None:
        event.synchronize()


@has_effect
def enter_profile(name: str, details: str = "") -> Entered:
    """Enters a scope that profilers show, until `exit_scope`."""
    return _entered(torch.profiler.record_function(name, details or None))


@has_effect
def enter_memory_pool(name: str, device: str) -> Entered:
    """Allocates memory of `device` from the process's pool of this name until `exit_scope`. It does nothing
    in a trace."""
    return Entered(None) if torch.compiler.is_compiling() else _entered(use_memory_pool(torch, name, device))


def _entered(context: AbstractContextManager[object]) -> Entered:
    context.__enter__()
    return Entered(context)


@has_effect
def exit_scope(entered: Entered) -> None:
    """Leaves the scope."""
    entered.leave()
