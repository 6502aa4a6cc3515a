"""Frames of an error's traceback."""

from __future__ import annotations

from types import TracebackType


def traces_of(error: Exception) -> list[TracebackType]:
    """Returns the frames of an error's traceback, outermost first."""
    traces, trace = [], error.__traceback__
    while trace is not None:
        traces.append(trace)
        trace = trace.tb_next
    return traces


def file_of(trace: TracebackType) -> str:
    """Returns the file of a frame's code."""
    return trace.tb_frame.f_code.co_filename
