"""Block sizes of attention kernels, and the number of parts that keys are split into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wrapper_ir import ir

_MULTIPROCESSORS = 132
_SHARED_BYTES = 96 * 1024
_FEW_PROGRAMS = 64
_LEAST_PART = 64
_MOST_SPLITS = 64
_LEAST_BLOCK = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Extents:
    """Sizes of a call, as expected: `rows` of queries for each of `heads` of keys, over all batches.

    `depth` and `value_depth` are padded widths. `fixed_keys` is the number of keys if all calls have it.
    """

    heads: int
    rows: int
    keys: int
    fixed_keys: int | None
    depth: int
    value_depth: int
    itemsize: int

    def programs(self, block: int) -> int:
        """The number of programs that compute `block` rows each."""
        return self.heads * -(-self.rows // block)


def split_count(extents: Extents) -> int:
    """Returns how many programs share the keys of a block of rows: 1 unless there are few rows and many
    keys."""
    programs, splits = max(1, extents.programs(_LEAST_BLOCK)), 1
    if programs >= _FEW_PROGRAMS:
        return 1
    most = min(_MULTIPROCESSORS // programs, extents.keys // _LEAST_PART, _MOST_SPLITS)
    while 2 * splits <= most:
        splits *= 2
    return splits


def configs(extents: Extents) -> tuple[ir.TritonConfig, ...]:
    """Returns the candidates. The first has the largest blocks that still use all multiprocessors."""
    blocks = [size for size in (128, 64, 32, 16) if size == _LEAST_BLOCK or size // 2 < extents.rows]
    if extents.itemsize > 2:
        blocks = [size for size in blocks if size < 128]
    enough = (size for size in blocks if extents.programs(size) >= _MULTIPROCESSORS)
    first = next(enough, _LEAST_BLOCK)
    blocks.sort(key=lambda size: (size != first, -size))
    candidates = (_config(extents, *shape) for block in blocks for shape in _shapes(block, extents))
    return tuple(dict.fromkeys(candidates))


def _shapes(block: int, extents: Extents) -> Iterator[tuple[int, int, int, int]]:
    """Yields rows, keys, warps and stages."""
    wide = extents.depth > 64
    if extents.itemsize > 2:  # computed without tensor cores, one product after another
        yield block, 32, 8 if block == 64 else 4, 2
        return
    yield block, 64, 8 if block == 128 and wide else 4, 3
    yield block, 128, 8 if block == 128 else 4, 2
    if block == _LEAST_BLOCK:
        yield block, 64, 2, 4


def _config(extents: Extents, rows: int, keys: int, warps: int, stages: int) -> ir.TritonConfig:
    """Returns a config with these sizes, or with smaller ones that fit in the memory of a multiprocessor."""

    def nbytes() -> int:
        return (
            rows * extents.depth + stages * keys * (extents.depth + extents.value_depth)
        ) * extents.itemsize

    while nbytes() > _SHARED_BYTES and stages > 1:
        stages -= 1
    while nbytes() > _SHARED_BYTES and keys > _LEAST_BLOCK:
        keys //= 2
    is_even = extents.fixed_keys is not None and extents.fixed_keys % keys == 0
    meta = (("BLOCK_M", rows), ("BLOCK_N", keys), ("EVEN", is_even))
    return ir.TritonConfig(meta=meta, num_warps=warps, num_stages=stages)
