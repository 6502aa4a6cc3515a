"""Buffers to place: as programs have them, and as MiniMalloc's challenge has them.

The challenge (Moffitt, ASPLOS 2023; `google/minimalloc`, `benchmarks`) is about 1,048,576 bytes, in which
each instance just fits: some hundred buffers, times and sizes in multiples of 1,024, the bytes nearly all in
use at any time. Instances of that description are cut from a full square, so that their least height is
known.
"""

from __future__ import annotations

import random

from wrapper_ir_passes.planner import Buffer

CAPACITY = 1 << 20
_UNIT = 1 << 10
_KEPT = 0.98
"""The share of the pieces that are buffers; the others leave gaps."""


def generated(count: int, live: int, seed: int = 0) -> list[Buffer]:
    """Buffers in order of time, of which about so many live at once.

    Sizes from 64 bytes to 1 MiB, small ones more often.
    """
    rng = random.Random(seed)
    return [
        Buffer(
            f"b{i}",
            i,
            i + rng.randint(1, 2 * live - 1),
            64 * rng.choice((1, 4, 16, 64, 256, 1024, 16384)),
            64,
        )
        for i in range(count)
    ]


def irregular(count: int, live: int, seed: int = 0) -> list[Buffer]:
    """As `generated`, but with irregular sizes and begins that no placement fits: the slowest case for a
    planner.
    """
    rng = random.Random(seed)
    begins = [rng.randrange(count) for _ in range(count)]
    return [
        Buffer(f"b{i}", begin, begin + rng.randint(1, 2 * live - 1), 64 * rng.randint(1, 16384), 64)
        for i, begin in enumerate(begins)
    ]


def challenge(count: int, seed: int = 0) -> list[Buffer]:
    """About so many buffers that fit into `CAPACITY` bytes, and into no less."""
    rng = random.Random(seed)
    side = CAPACITY // _UNIT
    pieces = [(0, side, 0, side)]  # begin, end, low, high
    while len(pieces) < count / _KEPT:
        at = max(rng.sample(range(len(pieces)), min(3, len(pieces))), key=lambda i: _area(pieces[i]))
        begin, end, low, high = pieces.pop(at)
        if end - begin > 1 and (high - low == 1 or rng.random() < 0.5):
            cut = rng.randint(begin + 1, end - 1)
            pieces += [(begin, cut, low, high), (cut, end, low, high)]
        elif high - low > 1:
            cut = rng.randint(low + 1, high - 1)
            pieces += [(begin, end, low, cut), (begin, end, cut, high)]
        else:
            pieces.append((begin, end, low, high))
    full = rng.randrange(side)  # pieces fill the whole height at this time, so the height is known
    selection = [p for p in pieces if p[0] <= full < p[1] or rng.random() < _KEPT]
    rng.shuffle(selection)
    return [
        Buffer(str(i), begin * _UNIT, end * _UNIT, (high - low) * _UNIT)
        for i, (begin, end, low, high) in enumerate(selection)
    ]


def _area(piece: tuple[int, int, int, int]) -> int:
    return (piece[1] - piece[0]) * (piece[3] - piece[2])
