"""Measures a whole call of emitted Python on a GPU, against Inductor's Python wrapper, in one run.

Usage: `python -m tools.bench.bench_wrapper [--write] [--matmuls] [--device cpu]`. Prints tables; `--write`
also writes `docs/benchmarks/wrapper.md`, prediction first. Exit status 1 if the goal is missed, which
`--matmuls` measures. `--device cpu` runs the same with C++ kernels on machines without a GPU, to test the
benchmark itself: it writes nothing and has no goals.

All sides have the same weights and results: the captured artifact's `boxed` call, as emitted by default and
with persistent buffers (`PyOptions(persistent_buffers=True)`), and its call with the model's own signature;
Inductor's Python wrapper as `torch.compile` calls it, on flat arguments; `torch.compile`'s callable, guards
included; eager mode; and a CUDA graph of our call, replayed, which is the GPU time. `--matmuls` adds both
wrappers with matmuls as Triton templates, in the same instance.

A round calls one side several times, few enough for the device's queue: until the last call returns (the
host's part), and until the device has finished. Rounds of all sides alternate. A ratio is the median of the
rounds' ratios.
"""

from __future__ import annotations

import copy
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._inductor import config as inductor_config
from torch.utils import _pytree as pytree

import inductor_frontend
import py_wrapper
from tests.common.zoo import Case
from tools.bench.pages import command_line, page, publish, table
from tools.bench.timing import Run, alternate, median_ratio, timed
from tools.bench.wrappers import inductor_call
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact

PREDICTION = """\
Written before the first measurement. On one H200 Inductor's Python wrapper took 378 us for the MLP, eager mode 566 us, and
the GPU alone 129 us. Of ours, a launch costs about 2.5 us (of which the driver has 2), a matmul into a given buffer
5 us, an allocation 1 us, the rest of a call 5 us: with 16 of each about 145 us, 0.4 of Inductor's, and near what the GPU
needs. A block of the GPT has six matmuls, about five other kernels, ten allocations and ten views: about 55 us, 0.45 to
0.6 of Inductor's, most of it in torch's own matmuls, which both sides call. Persistent buffers save the allocations and the
views: a tenth of the MLP's call, a quarter of the GPT's.

Written when torch's matmuls had been measured, 13 us each, of which 11 are inside the library that computes them: no
wrapper that calls them gets below 0.5. As Triton templates they are launches of 3.3 us: the MLP's call falls to 0.3 of
Inductor's wrapper, and the GPT's, whose attention stays an operator, to 0.4; where Inductor's wrapper launches the same
templates, to 0.45 of it."""

GOAL = 0.5
"""Share of the host time of Inductor's wrapper, with both launching matmuls as Triton templates."""
OURS, PERSISTENT, INDUCTOR = "ours", "ours, persistent buffers", "Inductor's wrapper"
INSTANCE = "BLOCK_K=128, BLOCK_M=32, BLOCK_N=32"
"""Instance of the template for matmuls: the fastest for these models on an H200, as Inductor measured."""
MATMULS, THEIR_MATMULS = "ours, persistent buffers, Triton matmuls", "Inductor's wrapper, Triton matmuls"
ROUNDS = 41
LAUNCHES = 400
"""Maximum calls of one side per round, well below the 1,024 entries of the device's queue.

A full queue would block the host, and every side would be as slow as the GPU.
"""
TOLERANCE = 2e-3


def mlp() -> Case:
    """16 x (linear, GELU, layer norm) of width 512, batch 64."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(16):
        layers += [nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512)]
    return Case(name="mlp", model=nn.Sequential(*layers).eval(), args=(torch.randn(64, 512),))


class Gpt(nn.Module):
    """GPT-2's blocks and head; returns only the logits."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel  # takes seconds, and only some processes need it

        config = GPT2Config(
            bos_token_id=0,
            eos_token_id=0,
            n_layer=12,
            n_embd=768,
            n_head=12,
            n_positions=64,
            vocab_size=1000,
            use_cache=False,
        )
        self.model = GPT2LMHeadModel(config)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits [batch, length, 1000] of token ids [batch, length]."""
        logits: Tensor = self.model(input_ids=ids, return_dict=False)[0]
        return logits


def gpt() -> Case:
    """12 blocks of width 768, batch 1, 64 tokens."""
    torch.manual_seed(0)
    return Case(name="gpt", model=Gpt().eval(), args=(torch.randint(0, 1000, (1, 64)),))


CASES: Mapping[str, Callable[[], Case]] = {
    "MLP 16 x (linear, GELU, layer norm) 512, batch 64": mlp,
    "GPT 12 blocks of width 768, batch 1, 64 tokens": gpt,
}


@dataclass(frozen=True, slots=True)
class Times:
    """Calls in a round.

    Microseconds of a call by side, one number a round: until it returned, and until the device had finished.
    """

    calls: int
    host: Mapping[str, list[float]]
    whole: Mapping[str, list[float]]


def sync(device: str) -> None:
    """Waits for the device."""
    if device == "cuda":
        torch.cuda.synchronize()


def with_matmuls(case: Case, there: Case, target: str) -> dict[str, Run]:
    """Adds both wrappers with matmuls as one instance of Triton's template, so that they differ only in the
    launch.
    """
    options = inductor_frontend.CaptureOptions(matmuls="templates")
    artifact = inductor_frontend.capture(case.model, case.args, target=target, options=options)
    ours = py_wrapper.compile(one_instance(artifact), py_wrapper.PyOptions(persistent_buffers=True))
    with inductor_config.patch(
        {
            "max_autotune_gemm": True,
            "max_autotune_gemm_backends": "TRITON",
            "test_configs.autotune_choice_desc_regex": f".*{INSTANCE}.*",
        }
    ):
        theirs, flat = inductor_call(there)
    return {MATMULS: lambda: ours.boxed(list(there.args)), THEIR_MATMULS: lambda: theirs(list(flat))}


def one_instance(artifact: Artifact) -> Artifact:
    """Templates with the one config that both sides launch."""
    program = artifact.program

    def keep(kernel: ir.KernelDef) -> ir.KernelDef:
        if not isinstance(kernel, ir.TritonKernel) or len(kernel.configs) == 1:
            return kernel
        configs = [c for c in kernel.configs if INSTANCE in ", ".join(f"{k}={v}" for k, v in sorted(c.meta))]
        return replace(kernel, configs=tuple(configs[:1])) if configs else kernel

    kernels = tuple(keep(kernel) for kernel in program.kernels)
    return replace(artifact, program=replace(program, kernels=kernels))


def make_sides(case: Case, device: str, *, matmuls: bool = False) -> dict[str, Run]:
    """Creates the timed sides; moves the model to the device."""
    target = None
    if device == "cuda":
        major, minor = torch.cuda.get_device_capability()
        target = f"cuda:sm_{major}{minor}"
    artifact = inductor_frontend.capture(case.model, case.args, target=target)
    origin = Case(name=case.name, model=copy.deepcopy(case.model), args=case.args)
    ahead = py_wrapper.compile(artifact)
    persistent = py_wrapper.compile(artifact, py_wrapper.PyOptions(persistent_buffers=True))
    model = case.model.to(device)
    args = pytree.tree_map(lambda t: t.to(device), case.args)
    there = Case(name=case.name, model=model, args=args)
    wrapper, flat = inductor_call(there)
    torch._dynamo.reset()
    stock = torch.compile(model)
    sides: dict[str, Run] = {
        OURS: lambda: ahead.boxed(list(args)),
        PERSISTENT: lambda: persistent.boxed(list(args)),
        f"{PERSISTENT}, forward": lambda: persistent(*args),
        INDUCTOR: lambda: wrapper(list(flat)),
        "torch.compile": lambda: stock(*args),
        "eager": lambda: model(*args),
    }
    if matmuls and target is not None:
        sides |= with_matmuls(origin, there, target)
    check_results(sides)
    if device == "cuda":
        sides["graph replay"] = graph_of(sides[OURS])
    return sides


def check_results(sides: Mapping[str, Run]) -> None:
    """Checks that every side equals eager mode: a side without work would be fast."""
    want = _first(sides["eager"]())
    for name, run in sides.items():
        for _ in range(3):  # compiled, warm, and once more
            got = _first(run())
        if not torch.allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE):
            raise AssertionError(f"{name} computes something else")


def _first(outputs: Any) -> Tensor:  # Any: outputs of any side
    leaf = pytree.tree_leaves(outputs)[0]
    assert isinstance(leaf, Tensor)
    return leaf


def graph_of(run: Run) -> Run:
    """A CUDA graph of one call."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    replay: Run = graph.replay
    return replay


def launches_of(run: Run) -> int:
    """Returns the number of kernels, copies and fills that one call puts into the device's queue."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        run()
        torch.cuda.synchronize()
    events = profiler.events()
    assert events is not None
    return sum(1 for event in events if event.device_type == torch.profiler.DeviceType.CUDA)


def calls_of(sides: Mapping[str, Run]) -> int:
    """Returns the number of calls per round, the same for every side."""
    return max(1, min(6, LAUNCHES // max(launches_of(run) for run in sides.values())))


def measure(sides: Mapping[str, Run], device: str) -> Times:
    """All sides in alternating rounds."""
    rounds, calls = (ROUNDS, calls_of(sides)) if device == "cuda" else (2, 1)
    found = alternate({name: partial(_round, run, calls, device) for name, run in sides.items()}, rounds)
    return Times(
        calls,
        {name: [host for host, _ in times] for name, times in found.items()},
        {name: [whole for _, whole in times] for name, times in found.items()},
    )


def _round(run: Run, calls: int, device: str) -> tuple[float, float]:
    """Microseconds of a call: until it returned, and until the device had finished."""

    def many() -> None:
        for _ in range(calls):
            run()

    sync(device)
    start = time.perf_counter()
    host, _ = timed(many)
    sync(device)
    return host / calls * 1e6, (time.perf_counter() - start) / calls * 1e6


def ratio(times: Mapping[str, list[float]], name: str, other: str = INDUCTOR) -> float:
    """The median over rounds of a side's time by Inductor's."""
    return median_ratio(times[name], times[other])


def side_table(times: Times) -> str:
    """A row for each side."""
    rows = [
        (
            name,
            f"{min(times.host[name]):.1f}",
            f"{ratio(times.host, name):.2f}",
            f"{min(times.whole[name]):.1f}",
            f"{ratio(times.whole, name):.2f}",
        )
        for name in times.host
    ]
    return table(("side", "host us", "of Inductor's", "until finished us", "of Inductor's"), rows)


def report(results: Mapping[str, Times]) -> str:
    """The document."""
    import triton

    parts = [
        f"{torch.cuda.get_device_name()}, Python {platform.python_version()}, torch {torch.__version__}, Triton "
        f"{triton.__version__}. Microseconds a call, best of {ROUNDS} alternating rounds; ratios are "
        f"medians over the rounds. Goal: {MATMULS}, at most {GOAL} of the host's time of {THEIR_MATMULS}."
    ]
    for name, times in results.items():
        parts += [f"### {name}", f"Calls in a round: {times.calls}.", side_table(times)]
        if MATMULS in times.host:
            beside = ratio(times.host, MATMULS, THEIR_MATMULS)
            parts.append(f"With Triton matmuls on both sides: {beside:.2f} of the host's time.")
    return page(
        "A whole call on a GPU",
        "python -m tools.bench.bench_wrapper --matmuls --write",
        ("Prediction", PREDICTION),
        ("Measured", "\n\n".join(parts)),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; `--write` also writes the page. Returns 1 if a goal is missed."""
    parser = command_line(__doc__)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--matmuls", action="store_true", help="also with matmuls as Triton templates")
    parser.add_argument("names", nargs="*", help="parts of the models' names")
    options = parser.parse_args(argv)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no GPU: nothing to measure (--device cpu tries the benchmark itself)", file=sys.stderr)
        return 0
    results: dict[str, Times] = {}
    for name, make in CASES.items():
        if not options.names or any(part.lower() in name.lower() for part in options.names):
            with torch.no_grad():
                results[name] = measure(
                    make_sides(make(), options.device, matmuls=options.matmuls), options.device
                )
            print(f"\n{name}\n{side_table(results[name])}", flush=True)
    if options.device == "cpu":
        return 0
    publish("wrapper", report(results), options)
    if not options.matmuls:
        return 0
    return int(any(ratio(times.host, MATMULS, THEIR_MATMULS) > GOAL for times in results.values()))


if __name__ == "__main__":
    sys.exit(main())
