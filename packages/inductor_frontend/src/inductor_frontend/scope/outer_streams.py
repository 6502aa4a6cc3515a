"""Relation of a program to the streams of its caller."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OuterStreams:
    """Streams and events of the trace that a program uses, by Inductor's numbers.

    `streams` are replaced by the program's own streams. `recorded` are events that the program records.
    `awaited` are events that it waits for without recording them.
    """

    streams: tuple[int, ...] = ()
    recorded: tuple[int, ...] = ()
    awaited: tuple[int, ...] = ()
