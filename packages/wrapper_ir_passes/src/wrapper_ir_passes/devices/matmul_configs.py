"""Block sizes of matmul kernels, and the number of parts of a sum, by a model of the device.

The model counts bytes and operations of a multiprocessor in nanoseconds. It orders candidates, and
predicts no time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from wrapper_ir import ir

_CANDIDATES = 8
_MOST_SPLITS = 16
_THREADS, _PROGRAMS, _REGISTERS = 2048, 32, 65536
"""Limits of a multiprocessor."""
_LATENCY, _STEP, _START, _LAUNCH = 800.0, 60.0, 1500.0, 2000.0
"""Nanoseconds until memory answers, added to each step, of a program's begin and end, of a
launch."""
_LEAST_BLOCK = 16


@dataclass(frozen=True, slots=True)
class Gpu:
    """Figures of a GPU: multiprocessors, bytes of shared memory of each, bytes of its memory in a nanosecond.

    `cache` and `operations` are those of a multiprocessor in a nanosecond, on 16-bit tensor cores.
    """

    multiprocessors: int
    shared_bytes: int
    memory: float
    cache: float = 45.0
    operations: float = 3000.0
    has_groups: bool = False
    """Four warps together compute 64 rows, at twice the speed."""


_GPUS = {
    "sm_80": Gpu(108, 160 * 1024, 1500.0, 40.0, 2900.0),
    "sm_90": Gpu(132, 224 * 1024, 3500.0, 45.0, 3700.0, True),
    "sm_100": Gpu(148, 224 * 1024, 6500.0, 60.0, 7500.0),
}
_OTHER = Gpu(84, 96 * 1024, 700.0, 40.0, 1400.0)


def gpu_of(arch: str) -> Gpu:
    """Returns the figures of an architecture, those of a small GPU if it is not known."""
    return _GPUS.get(arch.removesuffix("a"), _OTHER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extents:
    """Sizes of a call, as expected, and those that are the same in all calls.

    `is_deep`: the second factor's neighbours in memory belong to one column, not to one row.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    fixed_rows: int | None
    fixed_columns: int | None
    fixed_depth: int | None
    itemsize: int
    is_deep: bool

    @property
    def nbytes(self) -> int:
        """Bytes of both factors and the result."""
        elements = self.rows * self.depth + self.depth * self.columns + self.rows * self.columns
        return self.batch * elements * self.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A kernel: the one for vectors or the one with blocks of rows, its configs, the best first, and the
    number of parts of the depth."""

    is_vector: bool
    splits: int
    configs: tuple[ir.TritonConfig, ...]


@dataclass(frozen=True, slots=True)
class _Shape:
    """Block sizes of a program; `rows` is 0 in the kernel for vectors."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


@lru_cache(maxsize=512)
def plan(extents: Extents, gpu: Gpu) -> Plan:
    """Returns the kernel with the least expected time."""
    is_vector = extents.fixed_rows == 1
    shapes = tuple(_vector_shapes(extents) if is_vector else _shapes(extents, gpu))

    def seconds(shape: _Shape, splits: int) -> float:
        return _cost(extents, gpu, shape, splits) + _adding(extents, gpu, splits)

    splits = min(_splits(extents), key=lambda count: min(seconds(shape, count) for shape in shapes))
    best: dict[tuple[int, ...], _Shape] = {}
    for shape in sorted(shapes, key=lambda shape: seconds(shape, splits)):
        best.setdefault((shape.rows, shape.columns, shape.depth), shape)
    configs = tuple(_config(extents, shape) for shape in [*best.values()][:_CANDIDATES])
    return Plan(is_vector=is_vector, splits=splits, configs=configs)


def _splits(extents: Extents) -> list[int]:
    """Returns numbers of parts: 1 for sizes that may grow, since parts take memory."""
    if extents.fixed_rows is None or extents.fixed_columns is None:
        return [1]
    counts = [1]
    while 2 * counts[-1] <= _MOST_SPLITS and extents.depth >= 256 * counts[-1]:
        counts.append(2 * counts[-1])
    return counts


def _padded(size: int, least: int) -> int:
    return max(least, 1 << (max(size, 1) - 1).bit_length())


def _vector_shapes(extents: Extents) -> Iterator[_Shape]:
    """Yields shapes whose threads hold 16 to 64 elements: long parts of columns, or many columns."""
    depth = _padded(extents.depth, 64)
    for columns in (1, 2, 4, 8, 16) if extents.is_deep else (16, 32, 64, 128):
        for block in (64, 128, 256, 512, 1024, 2048):
            for warps in (2, 4, 8):
                if block <= depth and 16 <= columns * block // (32 * warps) <= 64:
                    yield _Shape(0, columns, block, warps, 1)
    if not extents.is_deep or depth < 512:  # small depths, with fewer elements for a thread
        columns = 16 if not extents.is_deep else max(1, 512 // depth)
        yield _Shape(0, columns, min(depth, 256), 2 if columns * depth <= 2048 else 4, 1)


def _shapes(extents: Extents, gpu: Gpu) -> Iterator[_Shape]:
    """Yields shapes that fit in shared memory and registers."""
    half = extents.itemsize == 2
    most_rows = min(128 if half else 64, _padded(extents.rows, _LEAST_BLOCK))
    for rows in (16, 32, 64, 128):
        for columns in (16, 32, 64, 128, 256) if half else (16, 32, 64):
            for depth in (32, 64, 128, 256) if half else (16, 32, 64):
                for stages in (4, 3, 5):
                    warps = 8 if rows * columns >= 128 * 128 else 2 if rows * columns <= 256 else 4
                    shape = _Shape(rows, columns, depth, warps, stages)
                    fits = _shared(extents, shape) <= gpu.shared_bytes and depth <= _padded(extents.depth, 32)
                    if fits and rows <= most_rows and (depth <= 128 or rows == _LEAST_BLOCK):
                        yield shape


def _shared(extents: Extents, shape: _Shape) -> int:
    return shape.stages * (shape.rows + shape.columns) * shape.depth * extents.itemsize


def _blocks(size: int, block: int) -> int:
    return -(-max(size, 1) // block)


def _cost(extents: Extents, gpu: Gpu, shape: _Shape, splits: int) -> float:
    """Returns the nanoseconds of the kernel that multiplies."""
    is_vector = not shape.rows
    rows = extents.rows if is_vector else _blocks(extents.rows, shape.rows)
    programs = extents.batch * rows * _blocks(extents.columns, shape.columns) * splits
    steps = _blocks(_blocks(extents.depth, splits), shape.depth)
    resident = min(_resident(extents, gpu, shape), _blocks(programs, gpu.multiprocessors))
    loaded = (
        ((1 if is_vector else shape.rows) + shape.columns)
        * min(shape.depth, extents.depth)
        * extents.itemsize
    )
    wait = _LATENCY if is_vector else _LATENCY / (shape.stages - 1)
    step = _STEP + max(wait, resident * loaded / gpu.cache, resident * _operations(extents, gpu, shape))
    waves = _blocks(programs, gpu.multiprocessors * resident)
    return max(waves * (steps * step + _START), _START + extents.nbytes / gpu.memory)


def _operations(extents: Extents, gpu: Gpu, shape: _Shape) -> float:
    """Returns the nanoseconds of a step's operations."""
    count = 2.0 * max(shape.rows, 1) * shape.columns * shape.depth
    if not shape.rows or extents.itemsize > 2:
        return count / 250.0  # without tensor cores
    in_groups = gpu.has_groups and shape.rows >= 64
    # small blocks load fragments more often than they multiply
    reuse = min(1.0, math.sqrt(shape.rows * shape.columns) / 64)
    return count / (gpu.operations * (1.4 if in_groups else 0.7) * max(reuse, 0.25))


def _resident(extents: Extents, gpu: Gpu, shape: _Shape) -> int:
    """Returns how many programs fit on a multiprocessor."""
    threads = 32 * shape.warps
    values = (
        shape.rows * shape.columns
        if shape.rows
        else shape.columns * shape.depth * (1 + extents.itemsize // 2) // 1
    )
    registers = values + 64 * threads
    limits = [_PROGRAMS, _THREADS // threads, _REGISTERS // registers]
    if shape.rows:
        limits.append(gpu.shared_bytes // _shared(extents, shape))
    return max(1, min(limits))


def _adding(extents: Extents, gpu: Gpu, splits: int) -> float:
    """Returns the nanoseconds of the kernel that adds parts."""
    if splits == 1:
        return 0.0
    nbytes = extents.batch * extents.rows * extents.columns * 4 * 2 * splits
    return _LAUNCH + nbytes / gpu.memory


def _config(extents: Extents, shape: _Shape) -> ir.TritonConfig:
    def is_even(size: int | None, block: int) -> bool:
        return size is not None and size % block == 0

    meta: list[tuple[str, ir.ConstantValue]] = [("BLOCK_M", shape.rows)] if shape.rows else []
    meta += [("BLOCK_N", shape.columns), ("BLOCK_K", shape.depth)]
    meta += [("EVEN_M", is_even(extents.fixed_rows, shape.rows))] if shape.rows else []
    meta += [("EVEN_N", is_even(extents.fixed_columns, shape.columns))]
    meta += [("EVEN_K", is_even(extents.fixed_depth, shape.depth))]
    return ir.TritonConfig(meta=tuple(meta), num_warps=shape.warps, num_stages=shape.stages)
