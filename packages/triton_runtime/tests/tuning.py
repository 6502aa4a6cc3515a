"""Kernels and clocks with fixed times, for tests of tuning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from triton_runtime.errors import CompileError
from triton_runtime.tune import DeviceKey, Gather, Measurements, TimingCache, Tuner
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir_tools.testing.catalogue import TRITON

HERE = DeviceKey("some device", "3.7")


def config(block: int, warps: int = 4, stages: int = 1) -> ir.TritonConfig:
    return ir.TritonConfig(meta=(("XBLOCK", block),), num_warps=warps, num_stages=stages)


def kernel(*configs: ir.TritonConfig, **changes: Any) -> ir.TritonKernel:  # Any: any fields
    return dataclasses.replace(TRITON, configs=configs, restore=(), **changes)


BLOCKS = (config(64), config(128), config(256))


class Clock:
    """A timer with fixed times: each run identifies itself."""

    def __init__(self, seconds: Mapping[Any, float]) -> None:
        self.table = seconds
        self.ran: list[object] = []
        self.measured = 0

    def seconds(self, run: Callable[[], object], before: Callable[[], object] | None = None) -> float:
        if before is not None:
            before()
        run()
        self.measured += 1
        return self.table[self.ran[-1]]


class Lab:
    """Kernels with fixed times by block size."""

    def __init__(self, seconds: Mapping[Any, float], broken: Mapping[int, Exception] | None = None) -> None:
        self.clock = Clock(seconds)
        self.broken = broken or {}
        self.loaded: list[int] = []

    def load_each(self, kernels: Sequence[ir.TritonKernel]) -> list[LoadedKernel | Exception]:
        return [self.load(k) for k in kernels]

    def load(self, kernel: ir.TritonKernel) -> LoadedKernel | Exception:
        [selected] = kernel.configs
        block = dict(selected.meta)["XBLOCK"]
        assert isinstance(block, int)
        self.loaded.append(block)
        if block in self.broken and isinstance(self.broken[block], CompileError):
            return self.broken[block]

        def run(x: Tensor, out: Tensor, *numbers: int) -> None:
            if block in self.broken:
                raise self.broken[block]
            self.clock.ran.append(block)
            out.copy_(x)

        return run

    def tuner(
        self, measurements: Measurements | None = None, gather: Gather | None = None, **changes: Any
    ) -> Tuner:  # Any: the tuner's own options
        return Tuner(
            self.load_each, self.clock, TimingCache(HERE, measurements=measurements, gather=gather), **changes
        )


ARGS = (torch.ones(8), torch.zeros(8), 8, 1)


class Shelf(dict[str, bytes]):
    """A store in memory."""

    def put(self, key: str, data: bytes) -> None:
        self[key] = data
