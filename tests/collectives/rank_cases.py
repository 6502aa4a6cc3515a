"""Artifacts and caches shared between processes, and programs that differ: cases of `parallel_worker.py`."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives

import cpp_wrapper
import fx_converter
import inductor_frontend
import py_wrapper
from cpp_wrapper import CppOptions
from inductor_frontend.cache import stats
from wrapper_ir import load, save
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.group_ranks import group_ranks
from wrapper_ir.errors import ExecutionError, NotSupportedError, code_of
from wrapper_ir_runtime.interp import Interpreter
from wrapper_ir_torch import compare_ranks

# Any in this file: models and functions of any signature
GROUP = "0"
funcol: Any = _functional_collectives


def _own_number(rank: int) -> Callable[[Tensor], Any]:
    """Each process captures its own rank."""
    return lambda x: funcol.all_reduce(x * (rank + 1), "sum", GROUP) + 0


def _loaders(path: Path, library: Path | None) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Runners of a file, by the loader's name."""
    artifact = load(path)
    yield "interpreter", Interpreter(artifact, py_wrapper.TORCH_MACHINE)
    yield "Python", py_wrapper.compile(artifact)
    yield "FX", fx_converter.convert(artifact)
    fx_converter.save(fx_converter.convert(artifact), path.with_suffix(".fx.wir"))
    yield "FX, read again", fx_converter.load(path.with_suffix(".fx.wir"))
    if library is not None:
        yield "C++", cpp_wrapper.load(library)


@contextmanager
def refused(code: str, *parts: str) -> Iterator[None]:
    """Checks that an error of this code with all these parts is raised."""
    try:
        yield
    except (ExecutionError, NotSupportedError, RuntimeError) as error:
        assert code_of(error) == code, error
        for part in parts:
            assert part in str(error), error
    else:
        raise AssertionError(f"{code} was not raised")


def artifacts_of_ranks(rank: int, world: int, folder: Path) -> None:
    """A process runs its own artifact through every loader.

    An artifact of another process is refused before anything communicates.
    """
    x = torch.arange(4.0)
    artifact = inductor_frontend.capture(_own_number(rank), (x,))
    save(artifact, folder / f"own{rank}.wir")
    cpp_wrapper.build(artifact, folder / f"own{rank}.pt2", CppOptions(opt_level=0))
    dist.barrier()
    want = x * sum(range(1, world + 1))
    for _, run in _loaders(folder / f"own{rank}.wir", folder / f"own{rank}.pt2"):
        torch.testing.assert_close(run(x.clone()), want)
    other = (rank + 1) % world
    for _, run in _loaders(folder / f"own{other}.wir", folder / f"own{other}.pt2"):
        with refused("WIR936", f"for rank {other}, and this is rank {rank}", "compare_ranks(artifact)"):
            run(x.clone())


def _saved_compared(name: str, artifact: Artifact, rank: int, folder: Path) -> Path:
    """Saves the artifact in the process of rank 0, once all have compared theirs."""
    path = folder / f"{name}.wir"
    compared = compare_ranks(artifact)
    if rank == 0:
        save(compared, path)
    dist.barrier()
    return path


def artifacts_that_are_compared(rank: int, world: int, folder: Path) -> None:
    """Equal ones are for every process.

    Of others the first difference is known, in the program or a weight.
    """
    x = torch.arange(4.0)
    same = inductor_frontend.capture(lambda x: funcol.all_reduce(x * 3, "sum", GROUP) + 0, (x,))
    assert group_ranks(same)[0].ranks == (rank,)
    for _, run in _loaders(_saved_compared("same", same, rank, folder), None):
        torch.testing.assert_close(run(x.clone()), 3 * world * x)

    own = inductor_frontend.capture(_own_number(rank), (x,))
    shard = nn.Linear(4, 4, bias=False)
    nn.init.constant_(shard.weight, rank)
    weights = inductor_frontend.capture(_Reduced(shard), (torch.ones(2, 4),))
    given = {"own": (own, x, "rank 1 has `kernel "), "weights": (weights, torch.ones(2, 4), "has `constant ")}
    for name, (artifact, inputs, difference) in given.items():
        path = _saved_compared(name, artifact, rank, folder)
        for _, run in _loaders(path, None):
            if rank == 0:
                run(inputs.clone())
                continue
            with refused("WIR936", f"this is rank {rank}", difference.replace("rank 1", f"rank {rank}")):
                run(inputs.clone())
            dist.all_reduce(torch.zeros_like(inputs))  # rank 0 waits for this


class _Reduced(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Any:
        return funcol.all_reduce(self.layer(x), "sum", GROUP) + 0


def shared_cache(rank: int, world: int, folder: Path) -> None:
    """With one cache folder, one process lowers equal programs, and different ones are never confused: in the
    first calls, which all begin at the same time, and after them.
    """
    # as tests of the cache do: others compile without one
    os.environ.update(WRAPPER_IR_COMPILE_CACHE="1", WRAPPER_IR_CACHE_DIR=str(folder / "cache"))
    x = torch.arange(4.0) + 1
    new = zlib.crc32(str(folder).encode()) % 10000 + world  # no process has compiled such a graph
    own = new + rank
    cases = {
        "own": (lambda x: funcol.all_reduce(x * own, "sum", GROUP), sum(range(new, new + world)), world),
        "same": (lambda x: funcol.all_reduce(x * new + x, "sum", GROUP), (new + 1) * world, 1),
    }
    for name, (model, factor, programs) in cases.items():
        before = stats()
        for _ in range(2):
            torch._dynamo.reset()
            dist.barrier()
            compiled = torch.compile(model, backend="wrapper_ir", fullgraph=True)
            torch.testing.assert_close(compiled(x), factor * x)
        found = stats()
        lowered = torch.tensor(found.lowered - before.lowered)
        dist.all_reduce(lowered)
        assert int(lowered) == programs, (name, int(lowered), found)
        assert found.function_hits - before.function_hits == 1, (name, found)


RANK_CASES = (artifacts_of_ranks, artifacts_that_are_compared, shared_cache)
