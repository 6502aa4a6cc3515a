"""The frames that an error passed through."""

from __future__ import annotations

from types import TracebackType


def traces_of(error: Exception) -> list[TracebackType]:
    """The frames of an error's traceback, outermost first."""
    found, trace = [], error.__traceback__
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def file_of(trace: TracebackType) -> str:
    """The file whose code a frame runs."""
    return trace.tb_frame.f_code.co_filename
