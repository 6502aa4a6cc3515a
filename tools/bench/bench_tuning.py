"""Measures quality and stability of the tuner's choices, on kernels of real models, on one GPU.

Usage: `python -m tools.bench.bench_tuning [--write] [--times FILE]`. Prints a table, and all means if a goal
is missed; `--write` also writes `docs/benchmarks/tuning.md`, prediction first; `--times` writes all times, as
JSON. Exit status 1 if a goal is missed.

Models are captured for the device, and their programs reduced to launches. Candidates are the configs that a
kernel lists and the neighbours of its first one. For 20 launches of different kernels or numbers, at most 5
per model, those with the most elements, the tuner chooses twice, each time from scratch. Before and
afterwards every candidate is measured exhaustively: equally many interleaved rounds for all, none stopped
early.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from inductor_frontend import capture
from tools.bench.pages import command_line, publish
from tools.bench.tuning_page import GOAL, KERNELS, Row, all_times, launch_table, report, verdict
from triton_runtime import TritonRuntime
from triton_runtime.settings import read_settings
from triton_runtime.tune import (
    DeviceKey,
    Entry,
    LoadEach,
    MeasureOptions,
    Timer,
    TimingCache,
    Tuner,
    config_key,
    measure,
    neighbours,
    timer_for,
    with_config,
)
from triton_runtime.tune.arguments import Preserved
from triton_runtime.tune.measure import attempt
from wrapper_ir import ir
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir.plugins.protocols import KernelRuntime, LoadedKernel, Machine
from wrapper_ir.plugins.registry import machine as find_machine
from wrapper_ir_passes.tuning.tuning_programs import tuning_programs
from wrapper_ir_runtime.interp import InterpOptions, example_inputs, run

OF_EACH = 5
EXHAUSTIVE = MeasureOptions(rounds=500, trial=500, most=500, warm_up=3)
"""Twice: before and after the tuner chooses."""
# Any in this file: arguments of launches.


@dataclass(frozen=True)
class Job:
    """One launch: its kernel with all candidate configs, and its arguments, including the numbers of its
    grid.
    """

    model: str
    kernel: ir.TritonKernel
    args: tuple[Any, ...]


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
    """A runtime whose kernels store their launch arguments."""

    kind = "triton"

    def __init__(self) -> None:
        self.given: dict[str, tuple[Any, ...]] = {}

    def found(self, kind: str) -> KernelRuntime:
        """This one, for any kind."""
        return self

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        """A kernel that keeps its arguments."""

        def keep(*args: Any) -> None:
            self.given[kernel.name] = args

        return keep

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        """See `load`."""
        return {kernel.name: self.load(kernel, target) for kernel in kernels}


def widened(kernel: ir.KernelDef) -> ir.KernelDef:
    """A kernel with the neighbours of its first config as further candidates, and no rule for more."""
    if not isinstance(kernel, ir.TritonKernel) or kernel.cooperative:
        return kernel
    first = kernel.configs[0]
    configs = {config_key(config): config for config in (*kernel.configs, *neighbours(first))}
    return replace(kernel, configs=tuple(configs.values()), derive=())


def jobs(name: str, program: ir.Program, machine: Machine[Any], seen: set[object]) -> Iterator[Job]:
    """Returns a program's launches with candidates and device arguments, those with the most elements first,
    without those in `seen`.
    """
    whole = replace(program, kernels=tuple(map(widened, program.kernels)))
    reduced = tuning_programs(whole)
    for one in sorted(reduced, key=lambda one: -math.prod(one.numbers(one.launch.kernel))):
        kernel = one.program.kernel(one.launch.kernel)
        if not isinstance(kernel, ir.TritonKernel) or one.program.constants:
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
    """Chooses twice, knowing nothing, and measures every config before and afterwards."""
    loaded = load_each([with_config(job.kernel, config) for config in job.kernel.configs])
    runs = {
        config_key(config): _bound(kernel, job.args)
        for config, kernel in zip(job.kernel.configs, loaded, strict=True)
        if not isinstance(kernel, Exception)
    }

    def measured() -> dict[str, list[float]]:
        with Preserved(
            job.kernel.params, job.args, 1 << 30, job.kernel.restore, job.kernel.reset
        ) as preserved:
            able, _ = attempt(runs, preserved.ready)
            return measure(able, timer, exhaustive, before=preserved.ready)

    before, first, second, after = measured(), *(_tuned(job, load_each, timer) for _ in range(2)), measured()
    times = {key: [*values, *after[key]] for key, values in before.items()}
    return Row(job.model, job.kernel, (first[0], second[0]), (first[1], second[1]), times)


def _tuned(job: Job, load_each: LoadEach, timer: Timer) -> tuple[ir.TritonConfig, Entry]:
    """Returns the choice, and its measurements; a kernel without candidates has none."""
    tuner = Tuner(load_each, timer, TimingCache(DeviceKey("this device", "this compiler")))
    choice = tuner.choose(job.kernel, job.args)
    unknown = Entry(order=(config_key(choice),), times={})
    return choice, tuner.timings.measurements.entries.get(tuner.key(job.kernel, job.args), unknown)


def _bound(kernel: LoadedKernel, args: tuple[Any, ...]) -> Callable[[], object]:
    return lambda: kernel(*args)


def collected(machine: Machine[Any], target: ir.Target) -> Iterator[Job]:
    """The launches that are examined, at most `KERNELS`."""
    seen: set[object] = set()
    for name, model, args in models():
        program = capture(model, args, target=target).program
        yield from itertools.islice(jobs(name, program, machine, seen), min(OF_EACH, KERNELS - len(seen)))


def main() -> int:
    """Runs it."""
    parser = command_line(__doc__)
    parser.add_argument("--times", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU: nothing to measure", file=sys.stderr)
        return 0
    start = time.perf_counter()
    major, minor = torch.cuda.get_device_capability()
    target = ir.Target(device=ir.Device("cuda", 0), arch=f"sm_{major}{minor}")
    timer, rows = timer_for(target.device), []
    with tempfile.TemporaryDirectory() as folder:
        runtime = TritonRuntime(settings=read_settings(dict(os.environ) | {"WRAPPER_IR_CACHE_DIR": folder}))
        load_each = runtime.loader(target).load_each
        for job in [*collected(find_machine("torch"), target)]:
            rows.append(examined(job, load_each, timer))
            print(launch_table(rows[-1:]).splitlines()[-1], flush=True)
    import triton

    about = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}"
    text = report(rows, about, time.perf_counter() - start, 2 * EXHAUSTIVE.rounds)
    if options.times is not None:
        options.times.write_text(all_times(rows))
    publish("tuning", text, options)
    near, same = verdict(rows)
    return 0 if len(rows) == KERNELS and min(near, same) >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
