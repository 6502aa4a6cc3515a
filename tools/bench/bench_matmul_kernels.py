"""Matmuls by kernels of a program against torch's, on a GPU: `matmul-kernels` over cuBLAS, for shapes of two models.

Usage: `python -m tools.bench.bench_matmul_kernels [--configs N]`. A side is a CUDA graph of 20 calls over different weights, so
that only the device counts and weights come from its memory; sides are replayed in alternating rounds. `--configs` also prints
the times of the next configs of the model's order.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

import py_wrapper
from tests.triton.matmul_programs import Case, inputs, with_kernels
from tools.bench.gpu_calls import Model, recorded
from tools.bench.pages import table
from tools.bench.timing import alternate, median_ratio
from wrapper_ir import ir
from wrapper_ir.artifact import bare_artifact

_CALLS, _ROUNDS = 20, 15
_MOST_BYTES = 2 << 30


def _case(rows: int, depth: int, columns: int, layout: str, bias: str = "") -> Case:
    return Case(rows=rows, depth=depth, columns=columns, layout=layout, bias=bias, dtype=torch.bfloat16)


_GPT2 = ((768, 2304), (768, 768), (768, 3072), (3072, 768))
_LLAMA = ((2048, 3072), (2048, 2048), (2048, 16384), (8192, 2048), (2048, 128256))
CASES = (
    *(_case(rows, *sizes, "rows", "columns") for rows in (64, 1) for sizes in _GPT2),
    _case(64, 768, 50257, "columns"),
    _case(1, 768, 50257, "columns"),
    *(_case(1, *sizes, "columns") for sizes in _LLAMA),
    _case(8, 2048, 16384, "columns"),
    _case(1024, 2048, 2048, "columns"),
)


def _event() -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's own
    return event


def _graph(run: Model, arguments: Sequence[Sequence[Tensor]]) -> Callable[[], float]:
    """Returns a function that replays several calls, and returns microseconds of one on the device."""

    def calls() -> None:
        for at in range(_CALLS):
            run(*arguments[at % len(arguments)])

    replay = recorded(calls, ())

    def timed() -> float:
        begin, end = _event(), _event()
        begin.record()
        replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3 / _CALLS

    return timed


def _programs(case: Case, count: int) -> Iterator[tuple[str, ir.Program]]:
    """Yields the program with each of the first configs of its matmul alone."""
    major, minor = torch.cuda.get_device_capability()
    program = with_kernels(case, arch=f"sm_{major}{minor}")
    first, *rest = program.kernels
    assert isinstance(first, ir.TritonKernel)
    parts = "" if not rest else f", {dict(first.constants)['SPLITS']} parts"
    for config in first.configs[:count]:
        kernels = (dataclasses.replace(first, configs=(config,)), *rest)
        blocks = " x ".join(str(value) for name, value in config.meta if name.startswith("BLOCK"))
        text = f"{blocks}, {config.num_warps} warps, {config.num_stages} stages{parts}"
        yield text, dataclasses.replace(program, kernels=kernels)


def _arguments(case: Case) -> list[list[Tensor]]:
    """Returns arguments of several calls, whose weights do not fit in the device's cache together."""
    tensors = inputs(case, "cuda")
    count = max(1, min(_CALLS, _MOST_BYTES // (tensors[1].numel() * 2)))
    return [tensors, *([tensors[0], tensors[1].clone(), *tensors[2:]] for _ in range(count - 1))]


def _theirs(first: Tensor, second: Tensor, *bias: Tensor) -> Tensor:
    return torch.addmm(bias[0], first, second) if bias else torch.mm(first, second)


def _rows(case: Case, compiled: Sequence[tuple[str, Model]]) -> Iterator[tuple[str, ...]]:
    """Yields the times of torch's matmul and of the program's."""
    arguments = _arguments(case)
    torch_side = _graph(_theirs, arguments)
    for text, run in compiled:
        want = _theirs(*arguments[0]).float()
        worst = ((run(*arguments[0])[0].float() - want).abs().max() / want.abs().max()).item()
        if not worst < 2e-2:
            raise SystemExit(f"{case}, {text}: wrong result, off by {worst}")
        sides = alternate({"ours": _graph(run, arguments), "torch": torch_side}, _ROUNDS)
        ratio = median_ratio(sides["ours"], sides["torch"])
        yield str(case), text, f"{min(sides['ours']):.1f}", f"{min(sides['torch']):.1f}", f"{ratio:.2f}"


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configs", type=int, default=1, help="number of configs of each case")
    options = parser.parse_args()
    found = [(case, *each) for case in CASES for each in _programs(case, options.configs)]
    with ThreadPoolExecutor(16) as pool:
        runs = list(pool.map(lambda each: py_wrapper.compile(bare_artifact(each[2])), found))
    headers = ("bf16", "config", "kernel µs", "torch µs", "kernel / torch")
    rows: list[tuple[str, ...]] = []
    with torch.no_grad():
        for case in CASES:
            ours = [(text, run) for (of, text, _), run in zip(found, runs, strict=True) if of is case]
            rows += _rows(case, ours)
    print(table(headers, rows))


if __name__ == "__main__":
    main()
