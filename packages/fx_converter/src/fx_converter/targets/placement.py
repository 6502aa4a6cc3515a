"""Devices, their streams and events, and the scopes of profilers and memory pools. Calls on the host are
synchronous."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from types import ModuleType

import torch

from fx_converter._compat import has_effect
from wrapper_ir_runtime import use_memory_pool
from wrapper_ir_torch import DeviceFunctions, device_functions

_Restore = tuple[Callable[..., object], tuple[object, ...]]
"""A function and its arguments."""


class Entered:
    """A device, stream or scope that is current until `leave`, or until no variable refers to this object.

    Each function of `restores` makes an earlier device or stream current, the last one first. Functions in C
    cannot be interrupted by Ctrl-C, which may be raised after them.
    """

    restores: tuple[_Restore, ...] = ()

    def __del__(self) -> None:
        if self.restores:
            self.leave()

    def leave(self) -> None:
        """Restores what was current before, once."""
        while self.restores:
            *rest, (function, args) = self.restores
            try:
                function(*args)
            finally:
                self.restores = tuple(rest)


def _entered(begin: Callable[[], object], *restores: _Restore) -> Entered:
    """Calls `begin`, which makes a device, stream or scope current; leaves it if that call is interrupted."""
    entered = Entered()
    try:
        entered.restores = restores
        begin()
    except BaseException:
        entered.leave()
        raise
    return entered


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
        return Entered()
    functions, (_, _, index) = _functions(device), device.partition(":")
    try:
        before = functions.current_device()
    except (RuntimeError, AssertionError):  # as torch says that it is built without the device
        if _module(device).is_available():
            raise
        return Entered()
    return _entered(lambda: functions.set_device(int(index)), (functions.restore_device, (before,)))


@has_effect
def exit_device(entered: Entered) -> None:
    """Leaves the device."""
    entered.leave()


@lru_cache(maxsize=256)
def _numbered(device: str, stream: int) -> torch.Stream:
    """Returns the stream with this number, the same in every call of this process."""
    created: torch.Stream = _module(device).Stream(device)
    return created


@lru_cache(maxsize=16)
def _functions(device: str) -> DeviceFunctions:
    return device_functions(device.partition(":")[0])


def _module(device: str) -> ModuleType:
    module: ModuleType = getattr(torch, device.partition(":")[0])  # torch.cuda, torch.xpu
    return module


def _stream(device: str, number: int) -> torch.Stream:
    stream: torch.Stream = _numbered(device, number) if number else _module(device).current_stream(device)
    return stream


@has_effect
def enter_stream(device: str, stream: int) -> Entered:
    """Makes the stream current for its device until `exit_stream`."""
    functions, numbered = _functions(device), _numbered(device, stream)
    current, index = functions.current_device(), numbered.device_index
    restores: list[_Restore] = [(functions.restore_stream, functions.current_stream(index))]
    if current != index:  # entering a stream makes its device current
        restores.insert(0, (functions.restore_device, (current,)))
    return _entered(lambda: functions.enter_stream(numbered), *restores)


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
    return _entered_scope(torch.profiler.record_function(name, details or None))


@has_effect
def enter_memory_pool(name: str, device: str) -> Entered:
    """Allocates memory of `device` from the process's pool of this name until `exit_scope`. It does nothing
    in a trace."""
    return (
        Entered() if torch.compiler.is_compiling() else _entered_scope(use_memory_pool(torch, name, device))
    )


def _entered_scope(context: AbstractContextManager[object]) -> Entered:
    context.__enter__()
    return _entered(lambda: None, (context.__exit__, (None, None, None)))


@has_effect
def exit_scope(entered: Entered) -> None:
    """Leaves the scope."""
    entered.leave()
