"""The problem of placing buffers, and its form as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from wrapper_ir.errors import PassError


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size` bytes that are needed from time `begin` until before time `end`; times are positions of ops.

    A buffer begins at a multiple of `alignment`; `size` need not be one.
    """

    name: str
    begin: int
    end: int
    size: int
    alignment: int = 1


Placement: TypeAlias = Mapping[str, int]
"""The first byte of each buffer, by name."""


def aligned(offset: int, alignment: int) -> int:
    """The first multiple of `alignment` from `offset` on."""
    return -(-offset // alignment) * alignment


def height(buffers: Iterable[Buffer], offsets: Placement) -> int:
    """Bytes that a placement takes."""
    return max((offsets[b.name] + b.size for b in buffers), default=0)


def live_bytes(buffers: Iterable[Buffer], alignment: int = 1) -> list[tuple[int, int]]:
    """(time, bytes needed from then on) for each time at which that changes; sizes are rounded up to
    `alignment`."""
    changes: dict[int, int] = {}
    for b in buffers:
        size = aligned(b.size, alignment)
        changes[b.begin] = changes.get(b.begin, 0) + size
        changes[b.end] = changes.get(b.end, 0) - size
    steps, now = [], 0
    for time in sorted(changes):
        now += changes[time]
        steps.append((time, now))
    return steps


def peak_bytes(buffers: Iterable[Buffer]) -> int:
    """The most bytes that are needed at one time: no placement takes fewer."""
    return max((live for _, live in live_bytes(buffers)), default=0)


def least_height(buffers: Sequence[Buffer]) -> int:
    """Returns a lower bound for placements.

    It is `peak_bytes`, adjusted for alignment: each buffer but the topmost ends at a possible start of
    another.
    """
    alignment = gcd(*(b.alignment for b in buffers))
    rounded = max((live for _, live in live_bytes(buffers, alignment)), default=0)
    return max(peak_bytes(buffers), rounded - max((-b.size % alignment for b in buffers), default=0))


def check_placement(buffers: Sequence[Buffer], offsets: Placement) -> None:
    """Raises PassError WIR808 for a buffer without a place, with a wrong alignment, or over another one at
    the same time.
    """
    for b in buffers:
        offset = offsets.get(b.name, -1)
        if offset < 0 or offset % b.alignment:
            raise PassError("WIR808", f"buffer {b.name} of alignment {b.alignment} is placed at {offset}")
    active: list[Buffer] = []
    for b in sorted(buffers, key=lambda b: b.begin):
        active = [a for a in active if a.end > b.begin]
        low, high = offsets[b.name], offsets[b.name] + b.size
        for a in active:
            if max(low, offsets[a.name]) < min(high, offsets[a.name] + a.size):
                raise PassError("WIR808", f"buffers {a.name} and {b.name} share bytes and time")
        active.append(b)


def read_csv(text: str) -> tuple[Buffer, ...]:
    """The buffers of a table with columns `id,lower,upper,size` (MiniMalloc's form; an `alignment` may
    follow).

    Raises PassError WIR809 for a missing column or something that is not a number.
    """
    try:
        return tuple(
            Buffer(
                row["id"],
                int(row["lower"]),
                int(row["upper"]),
                int(row["size"]),
                int(row.get("alignment") or 1),
            )
            for row in csv.DictReader(io.StringIO(text))
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PassError("WIR809", f"not a table of buffers (id,lower,upper,size): {error!r}") from error


def write_csv(buffers: Iterable[Buffer], offsets: Placement | None = None) -> str:
    """The table of `read_csv`, with a column `offset` where places are given (MiniMalloc's output)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["id", "lower", "upper", "size", "alignment", *(["offset"] if offsets is not None else [])]
    )
    for b in buffers:
        place = [offsets[b.name]] if offsets is not None else []
        writer.writerow([b.name, b.begin, b.end, b.size, b.alignment, *place])
    return out.getvalue()
