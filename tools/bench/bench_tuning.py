"""How good and how steady the tuner's choices are, on kernels of real models, on one GPU.

Usage: `python -m tools.bench.bench_tuning [--write]`. Prints a table; `--write` also writes `docs/benchmarks/tuning.md`,
prediction first. Exit status 1 where a goal is missed.

Models are captured for the device, and their programs reduced to launches. Candidates are the configs that a kernel lists
and the neighbours of its first one. For 20 launches of different kernels or numbers, 5 of each model at most, those of most elements, the tuner
chooses twice, each time knowing nothing, and then every candidate is measured exhaustively: as many interleaved rounds for
all, none stopped early.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from inductor_frontend import capture
from tools.bench.timing import write_report
from triton_runtime import TritonRuntime
from triton_runtime.settings import read_settings
from triton_runtime.tune import (
    Book,
    LoadEach,
    MeasureOptions,
    Timer,
    Tuner,
    Where,
    config_key,
    measure,
    neighbours,
    timer_for,
    with_config,
)
from wrapper_ir.interp import InterpOptions, example_inputs, run
from wrapper_ir.kernels import KernelDef, TritonConfig, TritonKernel, content_hash
from wrapper_ir.passes import tuning_programs
from wrapper_ir.program import Program, Target
from wrapper_ir.protocols import KernelRuntime, LoadedKernel, Machine
from wrapper_ir.registry import machine as find_machine
from wrapper_ir.types import Device

PREDICTION = """\
Written before the first measurement. The tuner's noise is 1 %: it takes the first config among those that it cannot tell
from the fastest, so a choice should cost up to 1 % by design, and rarely more: at least 19 of 20 within 2 % of the best of
an exhaustive measurement. Two runs should agree on at least 19: where two configs are about 1 % apart, one run may call them
equal and the other not. Kernels of 5 us and less are the risk, because a tick of the device's clock is a part of a percent
of them and a launch that starts late is several."""

KERNELS, OF_EACH = 20, 5
WITHIN, GOAL = 0.02, 19
EXHAUSTIVE = MeasureOptions(rounds=500, trial=500, most=500, warm_up=3)
# Any in this file: arguments of launches.


@dataclass(frozen=True)
class Job:
    """One launch: its kernel, with all candidate configs, and its arguments, the numbers of its grid among them."""

    model: str
    kernel: TritonKernel
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Row:
    """What came out for one launch: the configs chosen in two runs, and median seconds of all."""

    model: str
    kernel: TritonKernel
    chosen: tuple[TritonConfig, TritonConfig]
    medians: Mapping[str, float]

    @property
    def best(self) -> str:
        """The fastest config by the exhaustive measurement."""
        return min(self.medians, key=lambda key: self.medians[key])

    @property
    def loss(self) -> float:
        """How much longer the first run's choice takes than the best, as a part of the best."""
        return self.medians[config_key(self.chosen[0])] / self.medians[self.best] - 1

    @property
    def steady(self) -> bool:
        """Whether both runs chose the same."""
        return self.chosen[0] == self.chosen[1]


# --- launches of real models


def models() -> Iterator[tuple[str, nn.Module, tuple[Any, ...]]]:
    """Models of transformers in usual widths, with two layers each: kernels of further layers are the same."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers as tf

    torch.manual_seed(0)
    ids = torch.randint(0, 8000, (8, 512))
    gpt2 = tf.GPT2Config(n_layer=2, n_embd=768, n_head=12, vocab_size=8000, use_cache=False)
    yield "GPT-2", tf.GPT2LMHeadModel(gpt2).eval(), (ids,)
    bert = tf.BertConfig(num_hidden_layers=2, vocab_size=8000)
    yield "BERT", tf.BertModel(bert).eval(), (ids,)
    llama = tf.LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_hidden_layers=2, num_attention_heads=16, vocab_size=8000,
        use_cache=False,
    )  # fmt: skip
    yield "Llama", tf.LlamaForCausalLM(llama).eval(), (ids[:4],)
    vit = tf.ViTConfig(num_hidden_layers=2)
    yield "ViT", tf.ViTForImageClassification(vit).eval(), (torch.randn(16, 3, 224, 224),)


class _Arguments:
    """A runtime whose kernels keep what they are launched with."""

    kind = "triton"

    def __init__(self) -> None:
        self.given: dict[str, tuple[Any, ...]] = {}

    def found(self, kind: str) -> KernelRuntime:
        """This one, for any kind."""
        return self

    def load(self, kernel: KernelDef, target: Target) -> LoadedKernel:
        """A kernel that keeps its arguments."""

        def keep(*args: Any) -> None:
            self.given[kernel.name] = args

        return keep

    def load_all(self, kernels: Sequence[KernelDef], target: Target) -> dict[str, LoadedKernel]:
        """See `load`."""
        return {kernel.name: self.load(kernel, target) for kernel in kernels}


def widened(kernel: KernelDef) -> KernelDef:
    """A kernel with the neighbours of its first config as further candidates, and no rule for more."""
    if not isinstance(kernel, TritonKernel) or kernel.cooperative:
        return kernel
    first = kernel.configs[0]
    configs = {config_key(config): config for config in (*kernel.configs, *neighbours(first))}
    return replace(kernel, configs=tuple(configs.values()), derive=())


def jobs(name: str, program: Program, machine: Machine[Any], seen: set[object]) -> Iterator[Job]:
    """A program's launches with their candidates, with arguments on its device, those of most elements first; those in
    `seen` left out."""
    whole = replace(program, kernels=tuple(map(widened, program.kernels)))
    found = tuning_programs(whole)
    for one in sorted(found, key=lambda one: -math.prod(one.numbers(one.launch.kernel))):
        kernel = one.program.kernel(one.launch.kernel)
        if not isinstance(kernel, TritonKernel) or one.program.constants:
            continue
        key = (content_hash(kernel), one.numbers(kernel.name))
        if key not in seen:
            seen.add(key)
            runtime = _Arguments()
            inputs = example_inputs(one.program, machine, 0, {})
            run(one.program, inputs, machine, InterpOptions(find_runtime=runtime.found))
            yield Job(name, kernel, runtime.given[kernel.name])


# --- measuring


def examined(job: Job, load_each: LoadEach, timer: Timer, exhaustive: MeasureOptions = EXHAUSTIVE) -> Row:
    """Chooses twice, knowing nothing, and measures every config."""

    def choose() -> TritonConfig:
        return Tuner(load_each, timer, Book(Where("this device", "this compiler"))).choose(
            job.kernel, job.args
        )

    chosen = choose(), choose()
    runs: dict[str, Callable[[], object]] = {}
    loaded = load_each([with_config(job.kernel, config) for config in job.kernel.configs])
    for config, kernel in zip(job.kernel.configs, loaded, strict=True):
        if not isinstance(kernel, Exception):
            runs[config_key(config)] = _bound(kernel, job.args)
    times = measure(runs, timer, exhaustive)
    medians = {key: statistics.median(values) for key, values in times.items()}
    return Row(job.model, job.kernel, chosen, medians)


def _bound(kernel: LoadedKernel, args: tuple[Any, ...]) -> Callable[[], object]:
    return lambda: kernel(*args)


def verdict(rows: Sequence[Row]) -> tuple[int, int]:
    """How many choices are within 2 % of the best, and how many are the same in both runs."""
    return sum(row.loss <= WITHIN for row in rows), sum(row.steady for row in rows)


# --- reporting


def table(rows: Sequence[Row]) -> str:
    """A line for each launch."""
    lines = [
        "| model | kernel | configs | best, us | chosen | over the best, % | second run |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        name = row.kernel.name if len(row.kernel.name) <= 40 else f"{row.kernel.name[:40]}…"
        lines.append(
            f"| {row.model} | {name} | {len(row.medians)} | {row.medians[row.best] * 1e6:.2f} | "
            f"{config_key(row.chosen[0])} | {row.loss * 100:.2f} | "
            f"{'the same' if row.steady else config_key(row.chosen[1])} |"
        )
    return "\n".join(lines)


def report(rows: Sequence[Row], machine: str, seconds: float) -> str:
    """The page."""
    near, same = verdict(rows)
    return f"""# Tuning

Written by `python -m tools.bench.bench_tuning --write`; not edited by hand.

## Prediction

{PREDICTION}

## Measured

{machine}. {seconds:.0f} s in all.

{table(rows)}

Within {WITHIN:.0%} of the best of {EXHAUSTIVE.rounds} rounds: {near} of {len(rows)}. The same in two runs: {same} of \
{len(rows)}. Goals: at least {GOAL} of {KERNELS} each.
"""


def collected(machine: Machine[Any], target: Target) -> Iterator[Job]:
    """The launches that are examined, at most `KERNELS`."""
    seen: set[object] = set()
    for name, model, args in models():
        program = capture(model, args, target=target).program
        yield from itertools.islice(jobs(name, program, machine, seen), min(OF_EACH, KERNELS - len(seen)))


def main() -> int:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    if not torch.cuda.is_available():
        print("no GPU: nothing to measure", file=sys.stderr)
        return 0
    start = time.perf_counter()
    major, minor = torch.cuda.get_device_capability()
    target = Target(device=Device("cuda", 0), arch=f"sm_{major}{minor}")
    timer, rows = timer_for(target.device), []
    with tempfile.TemporaryDirectory() as folder:
        runtime = TritonRuntime(settings=read_settings(dict(os.environ) | {"WRAPPER_IR_CACHE_DIR": folder}))
        load_each = runtime.loader(target).load_each
        for job in [*collected(find_machine("torch"), target)]:
            rows.append(examined(job, load_each, timer))
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    import triton

    about = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}"
    text = report(rows, about, time.perf_counter() - start)
    print(text)
    if write:
        print(write_report("tuning", text))
    near, same = verdict(rows)
    return 0 if len(rows) == KERNELS and min(near, same) >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
