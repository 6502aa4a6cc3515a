"""Every kind of kernel that Inductor generates, and every class of launch grid: captured, compiled for a GPU
that is not here, and on a device against eager mode.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch._inductor import config as inductor_config
from torch._inductor.choices import InductorChoices
from torch._inductor.codegen.triton import FixedTritonConfig
from torch._inductor.runtime import triton_heuristics
from torch.utils import _pytree as pytree

import py_wrapper
from inductor_frontend import CaptureOptions, capture
from inductor_frontend.triton import definition, grids
from wrapper_ir import ir, parse_program, print_program
from wrapper_ir.artifact import Artifact

pytest.importorskip("triton", reason="the kernels are Triton's")

from tests.triton.own_kernels import KINDS as OWN
from triton_runtime.compile.compiler import compile_job
from triton_runtime.compile.job import make_job


@dataclass(frozen=True, slots=True)
class Kind:
    """A model whose kernels are of this kind: the heuristic's name and the grid's class, Inductor's names."""

    heuristic: str
    grid: str
    model: Callable[..., Any]
    sizes: tuple[tuple[int, ...], ...]
    config: Mapping[str, object] = field(default_factory=dict)
    matmuls: str = "extern"
    dynamic: bool = False


def _two(a: Tensor, b: Tensor) -> Tensor:
    return a + b.t()


def _apart(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return a + 1, b * 2


def _mixed(x: Tensor) -> tuple[Tensor, ...]:
    return x.sum(-1), x.sum(0)


ND = {"triton.max_tiles": 3, "triton.prefer_nd_tiling": True}
COMBO = {"combo_kernels": True}
CASES = {
    "one dimension": Kind("pointwise", "Grid1D", lambda x: x.sin() + 1, ((4, 16),)),
    "two dimensions": Kind("pointwise", "Grid2D", _two, ((300, 200), (200, 300))),
    "two of any size": Kind(
        "pointwise", "Grid2DWithYZOverflow", _two, ((300, 200), (200, 300)), dynamic=True
    ),
    "three dimensions": Kind(
        "pointwise", "Grid3D", lambda a, b: a.permute(2, 1, 0) + b, ((64, 32, 48), (48, 32, 64)), ND
    ),
    "reduction": Kind("reduction", "Grid1D", lambda x: x.softmax(-1), ((64, 5000),)),
    "persistent reduction": Kind("persistent_reduction", "Grid1D", nn.functional.softmax, ((64, 500),)),
    "cooperative reduction": Kind(
        "cooperative_reduction",
        "CooperativeReductionGrid",
        lambda x: x.sum(-1),
        ((4, 100_000),),
        {"triton.force_cooperative_reductions": True},
    ),
    "split scan": Kind("split_scan", "SplitScanGrid", lambda x: x.cumsum(0), ((1_000_000,),)),
    "matmul without a template": Kind(
        "persistent_reduction",
        "BatchMatmulGrid3D",
        torch.bmm,
        ((4, 64, 64), (4, 64, 64)),
        {"triton.native_matmul": True},
    ),
    "template": Kind("template", "FixedGrid", torch.mm, ((64, 64), (64, 64)), matmuls="templates"),
    "several tensors": Kind(
        "foreach", "SequentialComboKernelGrid", lambda a, b: torch._foreach_add([a, b], 1), ((10,), (2000,))
    ),
    "one after the other": Kind("pointwise", "SequentialComboKernelGrid", _apart, ((16,), (30, 20)), COMBO),
    "blocks of their own": Kind(
        "pointwise",
        "SequentialFlattenComboKernelGrid",
        _apart,
        ((16,), (30, 20)),
        {**COMBO, "combo_kernel_per_subkernel_blocks": True},
    ),
    "in turn": Kind(
        "persistent_reduction",
        "RoundRobinComboKernelGrid",
        lambda a, b: (a.sum(-1), b.sum(-1)),
        ((40, 200), (40, 200)),
        COMBO,
    ),
    "two orders": Kind("persistent_reduction", "MixOrderReductionGrid", _mixed, ((32768, 256),)),
    "one config": Kind("fixed_config", "Grid1D", lambda x: x.cos() * 3, ((100, 30),)),
    "a model's own": Kind("user", "PrecomputedGrid", OWN["heuristics_of_configs"].model, ((50, 20),)),
}


def example(kind: Kind) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(size, generator=generator) for size in kind.sizes)


def require(kind: Kind) -> None:
    """Skips features that the installed torch lacks."""
    options = [(key.removeprefix("triton."), key.startswith("triton.")) for key in kind.config]
    owners = {True: inductor_config.triton, False: inductor_config}
    if not hasattr(triton_heuristics, kind.grid) or not all(hasattr(owners[t], o) for o, t in options):
        pytest.skip("this version of torch does not generate such kernels")


def captured(kind: Kind, target: str) -> tuple[Artifact, set[str]]:
    """The program, and the classes of grids that Inductor named."""
    named: set[str] = set()
    grid_of, own_grids = grids.grid_of, grids.own_grids

    # Any: Inductor's meta data
    def seen(name: str, meta: Any, blocks: Any) -> Any:
        named.add(meta["grid_type"])
        return grid_of(name, meta, blocks)

    def own(name: str, meta: Any, configs: Any) -> Any:
        named.add(meta["grid_type"])
        return own_grids(name, meta, configs)

    # Any: Inductor's keyword arguments of a kernel
    def arguments(self: object, cls: object, features: object, groups: object, given: dict[str, Any]) -> Any:
        fixed = {"fixed_config": FixedTritonConfig({"XBLOCK": 64})}
        return {**given, **fixed} if kind.heuristic == "fixed_config" else given

    args = example(kind)
    shapes = tuple(dict.fromkeys(range(x.dim()), torch.export.Dim.DYNAMIC) for x in args)
    with (
        inductor_config.patch(dict(kind.config)),
        mock.patch.object(InductorChoices, "triton_kernel_kwargs", arguments),
        mock.patch.object(definition, "grid_of", seen),
        mock.patch.object(definition, "own_grids", own),
    ):
        options = CaptureOptions(matmuls=kind.matmuls)  # type: ignore[arg-type]  # one of the literals
        given = (shapes,) if kind.dynamic else None
        model = _of_all(kind.model) if kind.dynamic else kind.model
        artifact = capture(model, args, target=target, options=options, dynamic_shapes=given)
    return artifact, named


def _of_all(model: Callable[..., Any]) -> Callable[..., Any]:
    """torch.export treats the sizes of all arguments as those of one."""

    def forward(*args: Tensor) -> Any:
        return model(*args)

    return forward


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_for_a_device_that_is_not_here(name: str, tmp_path: Path) -> None:
    kind = CASES[name]
    require(kind)
    artifact, named = captured(kind, "cuda:sm_90")
    program = artifact.program
    assert kind.grid in named
    assert kind.heuristic in {k.heuristic for k in program.kernels if isinstance(k, ir.TritonKernel)}
    assert parse_program(print_program(program)) == program
    for kernel in program.kernels:
        if not isinstance(kernel, ir.MultiKernel):
            assert isinstance(kernel, ir.TritonKernel)
            job = make_job(kernel, kernel.configs[0], program.target, str(tmp_path))
            assert b"\x7fELF" in compile_job(job.to_bytes())


def test_every_class_of_grid_occurs() -> None:
    assert {kind.grid for kind in CASES.values()} == {*grids.GRIDS, "PrecomputedGrid"}


def test_every_heuristic_occurs() -> None:
    """Heuristics that Inductor decorates kernels with: functions with the kernel's metadata as arguments,
    besides its tuner.
    """
    found = {
        name
        for name, value in vars(triton_heuristics).items()
        if inspect.isfunction(value) and "triton_meta" in inspect.signature(value).parameters
    }
    public = {name for name in found if not name.startswith("_")} - {"cached_autotune"}
    own = {"user": "user_autotune"}
    assert public == {own.get(kind.heuristic, kind.heuristic) for kind in CASES.values()}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels run on a CUDA device, and there is none")
@pytest.mark.parametrize("name", CASES)
def test_on_a_device(name: str) -> None:
    kind = CASES[name]
    require(kind)
    major, minor = torch.cuda.get_device_capability()
    artifact, _ = captured(kind, f"cuda:sm_{major}{minor}")
    args = pytree.tree_map(lambda x: x.cuda(), example(kind))
    got, want = py_wrapper.compile(artifact)(*args), kind.model(*args)
    torch.testing.assert_close(pytree.tree_leaves(got), pytree.tree_leaves(want), rtol=2e-3, atol=2e-2)
