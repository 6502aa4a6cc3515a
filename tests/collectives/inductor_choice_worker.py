"""One of two processes with a GPU each, for models that Inductor itself moves to symmetric memory; started by
`test_inductor_choice_gpu.py`.

Usage: `python tests/collectives/inductor_choice_worker.py RANK FOLDER`. Writes the failures of each case into
a file of the folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._inductor import config as inductor_config
from torch.distributed import _symmetric_memory as symmetric_memory
from torch.utils._pytree import tree_leaves

import inductor_frontend
from tests.collectives.collective_cases import GROUP, WORLD, funcol
from tests.collectives.cpp_libraries import library
from tests.collectives.fused_cases import engines
from tests.collectives.steps import join_over_gpus, run_steps
from tests.common.parallel_models import ParallelMlp, SequenceMlp
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact

# Any in this file: untyped parts of torch
CALLS = 3
Makers = Mapping[str, Callable[[Artifact], Callable[..., Any]]]
"""Builds a callable of an artifact, by name."""
_FUSED = ("symm_mem::fused_all_gather_matmul", "symm_mem::fused_matmul_reduce_scatter")


class _Sums(nn.Module):
    """Sums of a kernel's output, twice, and of an input.

    The summed tensor is also a result, and used later.
    """

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        first = x.relu() + y
        second = funcol.all_reduce(first, "sum", GROUP)
        third = funcol.all_reduce(second.sigmoid() @ y, "sum", GROUP)
        return first, third, funcol.all_reduce(x, "sum", GROUP) * 2, first.cos()


class _Large(nn.Module):
    """A sum above Inductor's limit: the library's."""

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = funcol.all_reduce(x.repeat(8, 8) + 1, "sum", GROUP)
        return total.relu()


def _captured(model: nn.Module, *args: Tensor) -> Artifact:
    torch._dynamo.reset()
    with (
        inductor_config.patch({"_collective.auto_select": True, "_micro_pipeline_tp": True}),
        torch.no_grad(),
    ):
        return inductor_frontend.capture(model, args)


def _operators(artifact: Artifact) -> list[str]:
    return [
        op.target for op in artifact.program.ops if isinstance(op, ir.CallExtern) and "symm_mem" in op.target
    ]


def _ids(artifact: Artifact) -> list[int]:
    types = [op.result.type for op in artifact.program.ops if isinstance(op, ir.AllocStorage)]
    return [t.space.alloc_id for t in types if t.is_symmetric]


def _require_equal(artifact: Artifact, model: nn.Module, *args: Tensor, makers: Makers | None = None) -> None:
    """Checks that every engine equals eager mode, call after call."""
    for name, make in (makers or engines()).items():
        run = make(artifact)
        for _ in range(CALLS):
            given = [torch.randn_like(x) for x in args]
            with torch.no_grad():
                want, got = model(*given), run(*given)
            try:
                torch.testing.assert_close(tree_leaves(got), tree_leaves(want), rtol=2e-2, atol=2e-2)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error


def sums(rank: int, folder: Path) -> None:
    """Each sum has a separate buffer, with an id that all processes share, and equals eager."""
    x, y = torch.randn(64, 64, device="cuda"), torch.randn(64, 64, device="cuda")
    artifact, model = _captured(_Sums(), x, y), _Sums()
    assert len(set(_ids(artifact))) == len(_operators(artifact)) >= 2, _operators(artifact)
    _require_equal(artifact, model, x, y)


def split_model(rank: int, folder: Path) -> None:
    """A tensor-parallel MLP in bfloat16."""
    model = ParallelMlp(2, 256, 512, WORLD).to("cuda", torch.bfloat16).eval()
    x = torch.randn(32, 256, device="cuda", dtype=torch.bfloat16)
    artifact = _captured(model, x)
    assert len(_ids(artifact)) == len(_operators(artifact)) == 2, _operators(artifact)
    _require_equal(artifact, model, x)


def micro_pipeline(rank: int, folder: Path) -> None:
    """A sequence-parallel MLP, whose matmuls Inductor fuses with collectives: torch 2.11 matches them, later
    versions other patterns.
    """
    model = SequenceMlp(2, 256, 512, WORLD).to("cuda", torch.bfloat16).eval()
    x = torch.randn(64, 256, device="cuda", dtype=torch.bfloat16)
    artifact = _captured(model, x)
    if torch.__version__.startswith("2.11."):
        assert set(_operators(artifact)) == {*_FUSED}, _operators(artifact)
    _require_equal(artifact, model, x)


def compiled(rank: int, folder: Path, emitter: str) -> None:
    """Through `torch.compile`, which keeps Inductor's choice."""
    model = ParallelMlp(2, 256, 512, WORLD).to("cuda", torch.bfloat16).eval()
    x = torch.randn(32, 256, device="cuda", dtype=torch.bfloat16)
    torch._dynamo.reset()
    options: dict[str, Any] = {"emitter": emitter, "on_unsupported": "error"}
    with inductor_config.patch({"_collective.auto_select": True}), torch.no_grad():
        run = torch.compile(model, backend="wrapper_ir", fullgraph=True, options=options)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
            for _ in range(CALLS):
                torch.testing.assert_close(run(x), model(x), rtol=2e-2, atol=2e-2)
    counts = {event.key: event.count for event in seen.key_averages()}
    assert any(name.startswith("symm_mem::one_shot_all_reduce") for name in counts), counts


def cpp(rank: int, folder: Path) -> None:
    """A library supports the buffers that Inductor moves to symmetric memory, and the collectives that it
    keeps.
    """
    x, y = torch.randn(64, 64, device="cuda"), torch.randn(64, 64, device="cuda")
    (folder / str(rank)).mkdir()
    makers: Makers = {"C++": library(folder / str(rank))}
    _require_equal(_captured(_Sums(), x, y), _Sums(), x, y, makers=makers)
    artifact = _captured(_Large(), x)
    assert not _operators(artifact)
    _require_equal(artifact, _Large(), x, makers=makers)


CASES: Mapping[str, Callable[[int, Path], None]] = MappingProxyType(
    {
        "sums": sums,
        "split model": split_model,
        "micro pipeline": micro_pipeline,
        "compiled, Python": partial(compiled, emitter="python"),
        "compiled, FX": partial(compiled, emitter="fx"),
        "compiled, C++": partial(compiled, emitter="cpp"),
        "C++": cpp,
    }
)


def main(rank: int, folder: Path) -> None:
    """All cases."""
    join_over_gpus(rank, WORLD, folder)
    enable: Any = symmetric_memory.enable_symm_mem_for_group
    enable(GROUP)  # without it, Inductor chooses nothing
    run_steps(rank, folder, {name: partial(case, rank, folder) for name, case in CASES.items()})
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
