"""Measures peaks of planned programs on a GPU, against the plan's own figure and against Inductor, in one
run.

Usage: `python -m tools.bench.bench_memory_gpu [--write]`. Prints the tables; `--write` also writes
`docs/benchmarks/memory_gpu.md`, prediction first. The figures are the peak bytes requested from torch's
caching allocator during a call, without memory from before it (parameters, inputs, the libraries' workspaces,
which stay after the first call), and the number of requests. Tables are printed immediately: a run compiles
GPT-2 small seven times.
"""

from __future__ import annotations

import dataclasses
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._inductor import config as inductor_config

import inductor_frontend
import py_wrapper
from tools.bench.pages import command_line, page, publish, table
from wrapper_ir_passes import MEMORY_PASSES, run_pipeline
from wrapper_ir_passes.analysis.stats import program_stats

PREDICTION = """\
Written before the first measurement. GPT-2 small holds some 200 MiB in a call on 8 x 256 tokens, most of it the logits, which are
a result, and what attention and the wide layers make. The measured peak agrees with the plan's figure within 1 %: kernels
allocate nothing, and cuBLAS holds its workspace from the first call on. A plan asks the allocator fewer times than Inductor and
holds no more. In training, what the forward graph saves decides; plans of two graphs hold no more than Inductor's, with fewer
allocations."""

OUTCOME = """\
Measured over the plan's figure: {agrees}. Held over the bound: {bound}. In inference, a plan asks the allocator {ours} times where
torch.compile asks {stock} times and its pool planner {pools}, and holds {share} of what torch.compile holds, whose copy of the output
layer's weights, with rows added to a multiple of four (`padded_matmuls`, off in a capture), is in its peak. In training it holds
{training} of torch.compile's with {requests} requests in place of {theirs}, and where donated activations are written over,
{donated} with {fewer}."""
"""With the figures of the run."""

Step = Callable[[], object]
Model = Callable[..., Any]  # Any: results of transformers' models
_MIB = 2**20


def gpt2_small() -> nn.Module:
    """GPT-2 small as transformers configures it, without dropout, on the GPU.

    The same weights in every run.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # Imported here because it takes seconds, which `--help` does not need.
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    model: nn.Module = GPT2LMHeadModel(config)
    return model.cuda()


def measured(step: Step, clear: Callable[[], None]) -> tuple[int, int]:
    """Bytes requested at the worst moment of a step, and the number of requests, once all is compiled."""
    for _ in range(3):
        step()
        clear()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    step()
    torch.cuda.synchronize()
    after = torch.cuda.memory_stats()
    clear()
    peak = after["requested_bytes.all.peak"] - before["requested_bytes.all.current"]
    return peak, after["allocation.all.allocated"] - before["allocation.all.allocated"]


def _ours(model: Model, passes: str) -> Model:
    made: Model = torch.compile(
        model, backend="wrapper_ir", options={"on_unsupported": "error", "passes": passes}
    )
    return made


def _inference_sides(model: Model) -> Iterator[tuple[str, Model]]:
    yield "eager", model
    yield "torch.compile", torch.compile(model)
    with inductor_config.patch(memory_planning=True):
        yield "torch.compile, its pool planner", torch.compile(model)
    yield "ours, all memory passes", _ours(model, MEMORY_PASSES)


def _training_sides(model: Model) -> Iterator[tuple[str, Model]]:
    """Inductor's pool planner is for inference only."""
    yield "eager", model
    yield "torch.compile", torch.compile(model)
    yield "ours, all memory passes", _ours(model, MEMORY_PASSES)
    donated = MEMORY_PASSES.replace("reuse-in-place", "reuse-in-place{donated=true}")
    yield (
        "ours, donated activations written over",
        _ours(model, donated.replace("plan-memory", "plan-memory{donated=true}")),
    )


def _rows(
    sides: Iterator[tuple[str, Model]], step_of: Callable[[Model], Step], clear: Callable[[], None]
) -> list[list[object]]:
    peaks: dict[str, tuple[int, int]] = {}
    with inductor_config.patch(force_disable_caches=True):
        for name, compiled in sides:
            torch._dynamo.reset()
            peaks[name] = measured(step_of(compiled), clear)
    stock = peaks["torch.compile"][0]
    return [
        [name, f"{peak / _MIB:.2f}", f"{peak / stock:.3f}", count] for name, (peak, count) in peaks.items()
    ]


def _inference(model: nn.Module, ids: Tensor) -> list[list[object]]:
    def step_of(compiled: Model) -> Step:
        def step() -> object:
            with torch.no_grad():
                return compiled(ids).logits

        return step

    return _rows(_inference_sides(model.eval()), step_of, lambda: None)


def _training(model: nn.Module, ids: Tensor) -> list[list[object]]:
    def step_of(compiled: Model) -> Step:
        return lambda: compiled(ids, labels=ids).loss.backward()

    return _rows(_training_sides(model.train()), step_of, lambda: model.zero_grad(set_to_none=True))


def _planned(model: nn.Module, ids: Tensor) -> list[list[object]]:
    """Returns the figures of a captured program beside its measured call."""
    with torch.no_grad():
        artifact = inductor_frontend.capture(model.eval(), (ids,))
        rows: list[list[object]] = []
        for name, program in (
            ("no plan", artifact.program),
            ("all memory passes", run_pipeline(artifact.program, MEMORY_PASSES, verify=False)),
        ):
            memory = program_stats(program).memory
            call = py_wrapper.compile(dataclasses.replace(artifact, program=program))
            peak, count = measured(partial(call, ids), lambda: None)
            rows.append(
                [
                    name,
                    f"{memory.bound / _MIB:.2f}",
                    f"{memory.peak / _MIB:.2f}",
                    f"{memory.peak / memory.bound:.3f}",
                    f"{peak / _MIB:.2f}",
                    f"{peak / memory.peak:.4f}",
                    count,
                ]
            )
    return rows


CAPTURED_HEADERS = (
    "captured", "bound MiB", "held MiB", "held / bound", "measured MiB", "measured / held", "allocations",
)  # fmt: skip
HEADERS = ("side", "peak MiB", "of torch.compile", "allocations")


def _outcome(
    captured: Sequence[Sequence[object]],
    inference: Sequence[Sequence[object]],
    training: Sequence[Sequence[object]],
) -> str:
    """Summarises the tables."""
    _, stock, pools, ours = inference
    _, theirs, planned, donated = training
    return OUTCOME.format(
        agrees=captured[1][5], bound=captured[1][3], ours=ours[3], stock=stock[3], pools=pools[3], share=ours[2],
        training=planned[2], requests=planned[3], theirs=theirs[3], donated=donated[2], fewer=donated[3],
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints, or writes the page."""
    args = command_line(__doc__).parse_args(argv)
    torch.set_float32_matmul_precision("high")
    model = gpt2_small()
    ids = torch.randint(0, 50257, (8, 256), generator=torch.Generator().manual_seed(0)).cuda()
    captured = _planned(model, ids)
    print(table(CAPTURED_HEADERS, captured), flush=True)
    inference = _inference(model, ids)
    print(table(HEADERS, inference), flush=True)
    training = _training(model, ids[:4, :128].contiguous())
    device = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, GPT-2 small, float32"
    tables = table(CAPTURED_HEADERS, captured), table(HEADERS, inference), table(HEADERS, training)
    sections = (
        ("Prediction", PREDICTION),
        ("Inference, 8 x 256 tokens", f"{device}.\n\n{tables[0]}\n\n{tables[1]}"),
        ("Training, forward and backward of 4 x 128 tokens", tables[2]),
        ("What the figures say", _outcome(captured, inference, training)),
    )
    text = page("Memory held on a GPU", "python -m tools.bench.bench_memory_gpu --write", *sections)
    publish("memory_gpu", text, args)


if __name__ == "__main__":
    main()
