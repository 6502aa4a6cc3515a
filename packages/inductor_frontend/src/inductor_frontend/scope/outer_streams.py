"""What a program has to do with the streams around it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OuterStreams:
    """By Inductor's numbers: the streams in whose place a program has its own, the events that it records, and the events
    that it waits for although it has not recorded them."""

    streams: tuple[int, ...] = ()
    recorded: tuple[int, ...] = ()
    awaited: tuple[int, ...] = ()
