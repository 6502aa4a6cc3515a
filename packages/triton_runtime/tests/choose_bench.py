"""Measures choices with fixed times of each kernel."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from packages.triton_runtime.tests.tuning import HERE, Clock, Shelf, config
from torch import Tensor

from triton_runtime.choose import ChoiceOptions, MultiLaunch
from triton_runtime.tune import Gather, TimingCache
from wrapper_ir import ir
from wrapper_ir.plugins.protocols import LoadedKernel
from wrapper_ir_tools.testing.catalogue import TRITON


def pointer(name: str, access: ir.Access) -> ir.KernelParam:
    return ir.KernelParam(name=name, kind=ir.ParamKind.POINTER, dtype=ir.DType.F32, access=access)


X, OUT, WS = pointer("x", ir.Access.READ), pointer("out", ir.Access.WRITE), pointer("ws", ir.Access.READWRITE)


N = ir.KernelParam(name="n", kind=ir.ParamKind.SCALAR, dtype=ir.DType.I32)


def variant(name: str, *params: ir.KernelParam, **changes: Any) -> ir.TritonKernel:  # Any: any fields
    order = (*(p.name for p in params), "XBLOCK")
    return dataclasses.replace(
        TRITON,
        **{
            "name": name,
            "params": params,
            "order": order,
            "constants": (),
            "restore": (),
            "configs": (config(64),),
        }
        | changes,
    )


LOOPED = variant("looped", X, OUT, N, source="looped")


PERSISTENT = variant("persistent", X, OUT, N, grid_params=(), grid=TRITON.grid[:1], source="persistent")


SPLIT = variant("split", X, OUT, N, WS, reset=("ws",), source="split")


KERNELS: dict[str, ir.KernelDef] = {k.name: k for k in (LOOPED, PERSISTENT, SPLIT)}


MULTI = ir.MultiKernel(
    name="multi",
    params=(X, OUT, N, WS),
    variants=(
        ir.Variant(kernel="looped", args=(0, 1, 2), grid=(0,)),
        ir.Variant(kernel="persistent", args=(0, 1, 2)),
        ir.Variant(kernel="split", args=(0, 1, 2, 3), grid=(1,)),
    ),
    grid_params=("a", "b"),
)


class Bench:
    """Kernels that record their arguments, and take the times of a table."""

    def __init__(self, **seconds: float) -> None:
        self.clock = Clock(seconds)
        self.given: dict[str, tuple[Any, ...]] = {}
        self.broken: dict[str, Exception] = {}

    def load(self, name: str) -> LoadedKernel:
        def run(*args: Any) -> None:
            if name in self.broken:
                raise self.broken[name]
            self.clock.ran.append(name)
            self.given[name] = args
            args[1].copy_(args[0] + len(self.clock.ran))
            if name == "split":
                assert not args[3].any()  # reset before each run
                args[3].add_(1)

        return run

    def launch(
        self,
        kernel: ir.MultiKernel = MULTI,
        store: Shelf | None = None,
        gather: Gather | None = None,
        **options: Any,
    ) -> MultiLaunch:  # Any: any options
        loaded = {name: self.load(name) for name in KERNELS}
        timings = TimingCache(HERE, gather=gather)
        return MultiLaunch(kernel, KERNELS, loaded, self.clock, timings, store, ChoiceOptions(**options))


def args(size: int = 8) -> tuple[Tensor, Tensor, int, Tensor, int, int]:
    return torch.ones(size), torch.zeros(size), size, torch.zeros(4), 10, 20
