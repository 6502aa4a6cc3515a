"""One of the processes that run programs with collectives; started by `test_collectives.py`.

Usage: `python tests/collectives/collective_worker.py RANK FOLDER [--world N] [--device cuda] [--ways WAYS]
[CASE ...]`. `--ways stock`: only through stock `torch.compile`, `cpp`: only through C++ libraries. Writes the
outcome of each case into a file of the folder: nothing, or the failure. The first failure ends the run:
afterwards the processes would wait for each other in different places.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
import torch.distributed as dist
from torch import Tensor
from torch._inductor import config as inductor_config
from torch.utils import _pytree as pytree

import cpp_wrapper
import fx_converter
import inductor_frontend
import py_wrapper
from cpp_wrapper import CppOptions
from fx_converter import FxOptions
from tests.collectives.collective_cases import CASES, GROUP, HAS_P2P, WORLD, CollectiveCase, funcol
from tests.collectives.collective_training import TRAINING
from tests.common.compare import assert_same, clone_tree
from tests.common.forms import FORMS
from wrapper_ir.artifact import Artifact
from wrapper_ir_runtime.interp import Interpreter

# Any in this file: functions of any signature, with any results.
PATIENCE = timedelta(seconds=120)
"""Time that a process waits for the other one, which may be compiling."""


def run(function: Any, args: tuple[Any, ...], in_flight: bool) -> tuple[Any, Any]:
    """Returns the results of a call, followed by its arguments."""
    args = clone_tree(args)
    with torch.no_grad():
        results = function(*args)
    if in_flight:
        wait: Any = torch.ops._c10d_functional.wait_tensor
        results = pytree.tree_map_only(Tensor, wait, results)
    return clone_tree(results), args


def check(case: CollectiveCase, rank: int, options: argparse.Namespace) -> None:
    """Checks that every way to run the case equals eager."""
    with inductor_config.patch(dict(case.options)), TemporaryDirectory() as folder:
        function, args = case.make(rank)
        args = pytree.tree_map_only(Tensor, lambda x: x.to(options.device), args)
        want = run(function, args, case.in_flight)
        if options.ways == "stock":
            ways = {"torch.compile": torch.compile(function, fullgraph=True)}
        elif options.ways == "cpp":
            ways = {"C++": library(case, function, args, Path(folder))}
        else:
            ways = our_ways(case, function, args, Path(folder))
        for name, way in ways.items():
            try:
                assert_same(run(way, args, case.in_flight), want)
            except Exception as error:
                raise AssertionError(f"{name}: {error}") from error


def graphs(artifact: Artifact, folder: Path) -> dict[str, Callable[..., Any]]:
    """The artifact as FX graphs of both forms, and those graphs saved and read again."""
    found: dict[str, Callable[..., Any]] = {}
    for form in FORMS:
        module = fx_converter.convert(artifact, FxOptions(kernel_calls=form))
        path = folder / f"{form}.wir"
        fx_converter.save(module, path)
        found[f"FX graph, {form}"] = module
        found[f"FX graph, {form}, boxed"] = fx_converter.compile(artifact, FxOptions(kernel_calls=form))
        found[f"FX graph, {form}, read again"] = fx_converter.load(path, FxOptions(kernel_calls=form))
    return found


def library(
    case: CollectiveCase, function: Callable[..., Any], args: tuple[Any, ...], folder: Path
) -> Callable[..., Any]:
    """Captures the case and builds a library, which calls operators of torch's Python code through Python."""
    artifact = inductor_frontend.capture(function, args, dynamic_shapes=case.dynamic)
    options = CppOptions(opt_level=0, python_operators=True)
    return cpp_wrapper.load(cpp_wrapper.build(artifact, folder / "case.so", options))


def our_ways(
    case: CollectiveCase, function: Callable[..., Any], args: tuple[Any, ...], folder: Path
) -> dict[str, Callable[..., Any]]:
    """The case captured and run by each engine, and compiled by our backend."""
    artifact = inductor_frontend.capture(function, args, dynamic_shapes=case.dynamic)
    return {
        "interpreter": Interpreter(artifact, py_wrapper.TORCH_MACHINE),
        "emitted Python": py_wrapper.compile(artifact),
        **graphs(artifact, folder),
        "torch.compile, our backend": torch.compile(function, backend="wrapper_ir", fullgraph=True),
    }


def waits_for_inputs(rank: int) -> None:
    """An input that really is in flight, through every way to run the program that waits for it; and one of
    the class that waits by itself when it is used.
    """
    c10d: Any = torch.ops._c10d_functional
    x, w = CASES["all_reduce"].make(rank)[1]

    def model(x: Tensor, w: Tensor) -> Any:
        return c10d.wait_tensor(x) @ w

    artifact = inductor_frontend.capture(model, (x, w))
    want = c10d.wait_tensor(c10d.all_reduce(x, "sum", GROUP)) @ w
    ways: list[Callable[..., Any]] = [
        Interpreter(artifact, py_wrapper.TORCH_MACHINE),
        py_wrapper.compile(artifact),
        *(fx_converter.convert(artifact, FxOptions(kernel_calls=form)) for form in FORMS),
        torch.compile(model, backend="wrapper_ir", fullgraph=True),
    ]
    for way in ways:
        assert_same(way(c10d.all_reduce(x, "sum", GROUP), w), want)
    flying = funcol.all_reduce(x, "sum", GROUP)
    assert type(flying) is not Tensor
    assert_same(torch.compile(torch.mm, backend="wrapper_ir", fullgraph=True)(flying, w), want)


def messages(rank: int) -> None:
    """Runs torch's functions for messages, which only `torch.compile` traces, and only on request."""
    x, w = CASES["all_reduce"].make(rank)[1]

    def model(x: Tensor, w: Tensor) -> Tensor:
        received = torch.empty_like(x)
        pending = [dist.isend(x, 1 - rank), dist.irecv(received, 1 - rank)]
        for message in pending:
            assert message is not None
            message.wait()
        return received @ w

    want = model(x, w)
    with torch._dynamo.config.patch(enable_p2p_compilation=True):
        assert_same(torch.compile(model, backend="wrapper_ir", fullgraph=True)(x, w), want)


def checks(rank: int, options: argparse.Namespace) -> dict[str, Callable[[], None]]:
    """Everything that is run, by name, in the same order on every process."""
    found: dict[str, Callable[[], None]] = {
        name: partial(check, case, rank, options) for name, case in CASES.items()
    }
    if options.ways or options.world != WORLD or options.device != "cpu":
        return found
    others = [waits_for_inputs, *([messages] if HAS_P2P else []), *TRAINING.values()]
    return found | {other.__name__: partial(other, rank) for other in others}


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", type=int, default=WORLD)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--ways", choices=("", "stock", "cpp"), default="")
    parser.add_argument("cases", nargs="*")
    return parser.parse_args(argv)


def main(rank: int, folder: Path, options: argparse.Namespace) -> None:
    """Runs all cases, or those of these names."""
    on_gpu = options.device == "cuda"
    if on_gpu:
        torch.cuda.set_device(rank)
    torch.manual_seed(0)
    # Symbolic sizes may come out of data.
    torch._dynamo.config.capture_scalar_outputs = True
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=options.world,
        timeout=PATIENCE,
        device_id=torch.device("cuda", rank) if on_gpu else None,
    )
    done: dict[str, Any] = {}
    for name, work in checks(rank, options).items():
        if options.cases and name not in options.cases:
            continue
        torch._dynamo.reset()
        start, failure = time.process_time(), ""
        try:
            work()
        except Exception:
            failure = traceback.format_exc()
        done[name] = {"failure": failure, "seconds": round(time.process_time() - start, 2)}
        (folder / f"rank{rank}.json").write_text(json.dumps(done), encoding="utf-8")
        if failure:
            sys.exit(1)  # no farewell: the other process may be waiting for something else
    dist.barrier()
    dist.destroy_process_group()
    # At Python's exit, a group that is still referenced is destroyed while its threads run, which sometimes
    # aborts the process. Gloo's teardown is not under test here.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), _options(sys.argv[3:]))
