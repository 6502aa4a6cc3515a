"""Attention by kernels of a program against torch's, on a GPU: `attention-kernels` over `scaled_dot_product_attention`.

Usage: `python -m tools.bench.bench_attention_kernels [--configs]`. A side is a CUDA graph of 20 calls, so that only the
device counts; sides are replayed in alternating rounds. `--configs` also prints the time of each config.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import py_wrapper
from inductor_frontend import capture
from tools.bench.gpu_calls import Model, recorded
from tools.bench.pages import table
from tools.bench.timing import alternate, median_ratio
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes.pipeline import run_on_artifact

_CALLS, _ROUNDS = 20, 30
_TOLERANCE = 2e-2


@dataclass(frozen=True, slots=True)
class Case:
    """A call with `heads` of the query over `kv_heads`; `mask` is "" or "rows" or "causal"."""

    name: str
    heads: int
    kv_heads: int
    rows: int
    keys: int
    width: int = 64
    mask: str = ""

    def inputs(self) -> tuple[Tensor, ...]:
        shapes = (self.heads, self.rows), (self.kv_heads, self.keys), (self.kv_heads, self.keys)
        tensors = [torch.randn(1, *shape, self.width).bfloat16() for shape in shapes]
        if self.mask == "rows":
            hidden = torch.ones(self.rows, self.keys, dtype=torch.bool).triu(1 + self.keys - self.rows)
            tensors.append(torch.zeros(1, 1, self.rows, self.keys).masked_fill(hidden, -torch.inf).bfloat16())
        return tuple(tensors)


CASES = tuple(
    Case(f"GPT-2 small, {length} tokens, {mask or 'no mask'}", 12, 12, length, length, mask=mask)
    for length in (64, 1024)
    for mask in ("", "rows", "causal")
) + tuple(
    Case(f"Llama, 1 token after {keys}, {mask or 'no mask'}", 32, 8, 1, keys, mask=mask)
    for keys in (512, 4096)
    for mask in ("", "rows")
)


class _Attention(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.causal, self.grouped = case.mask == "causal", case.heads != case.kv_heads

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return nn.functional.scaled_dot_product_attention(
            q, k, v, mask, is_causal=self.causal, enable_gqa=self.grouped
        )


def _event() -> torch.cuda.Event:
    event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's own
    return event


def _graph(run: Model, args: tuple[Tensor, ...]) -> Callable[[], float]:
    """Returns a function that replays several calls, and returns microseconds of one on the device."""

    def calls(*args: Tensor) -> None:
        for _ in range(_CALLS):
            run(*args)

    replay = recorded(calls, args)

    def timed() -> float:
        begin, end = _event(), _event()
        begin.record()
        replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3 / _CALLS

    return timed


def _with_configs(artifact: Artifact) -> Iterator[tuple[str, Artifact]]:
    """Yields the artifact with each config of its attention alone, the first one first."""
    program = artifact.program
    for at, kernel in enumerate(program.kernels):
        match kernel:
            case ir.TritonKernel(entry="attention", configs=configs):
                for config in configs:
                    only = dataclasses.replace(kernel, configs=(config,))
                    kernels = (*program.kernels[:at], only, *program.kernels[at + 1 :])
                    meta = ", ".join(f"{name} {value}" for name, value in config.meta)
                    text = f"{meta}, {config.num_warps} warps, {config.num_stages} stages"
                    yield (
                        text,
                        dataclasses.replace(artifact, program=dataclasses.replace(program, kernels=kernels)),
                    )
            case _:
                pass


def _rows(case: Case, *, every_config: bool) -> Iterator[tuple[str, ...]]:
    """Yields the times of torch's attention and of the program's."""
    torch.manual_seed(0)
    model, inputs = _Attention(case), case.inputs()
    major, minor = torch.cuda.get_device_capability()
    artifact = run_on_artifact(capture(model, inputs, target=f"cuda:sm_{major}{minor}"), "attention-kernels")
    assert not any("scaled_dot_product" in e.name for e in artifact.program.externs), case.name
    there = tuple(tensor.cuda() for tensor in inputs)
    theirs = _graph(model, there)
    for text, each in _with_configs(artifact):
        run = py_wrapper.compile(each)
        torch.testing.assert_close(run(*there), model(*there), rtol=_TOLERANCE, atol=_TOLERANCE)
        sides = alternate({"ours": _graph(run, there), "torch": theirs}, _ROUNDS)
        ratio = median_ratio(sides["ours"], sides["torch"])
        yield case.name, text, f"{min(sides['ours']):.1f}", f"{min(sides['torch']):.1f}", f"{ratio:.2f}"
        if not every_config:
            return


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configs", action="store_true", help="all configs, not only the first")
    options = parser.parse_args()
    headers = ("bf16", "config", "kernel µs", "torch µs", "kernel / torch")
    with torch.no_grad():
        print(table(headers, [row for case in CASES for row in _rows(case, every_config=options.configs)]))


if __name__ == "__main__":
    main()
