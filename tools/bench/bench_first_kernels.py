"""Measures the compilation of the first kernels of a process, ours against Inductor's pool, without a GPU.

Usage: `python -m tools.bench.bench_first_kernels [--write] [--rounds N]`. Prints a table; `--write` also
writes `docs/benchmarks/first_kernels.md`. Each measurement is a separate process with empty caches, in which
Dynamo and Inductor are imported; sides alternate. The process announces kernels to each side, as a
compilation does (`PreparingRuntime.prepare`, `AsyncCompile.wakeup`), waits as long as lowering would take,
and then requests all kernels. The seconds are from there to the last cubin for sm_90. Nothing is loaded onto
a device: the part of `AsyncCompile.triton` that needs one is skipped. "Processor" is the processor time of
this process and its children, from the announcement to the last cubin, in seconds. It is the more stable
number on a loaded machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from unittest import mock

from tools.bench.pages import command_line, page, publish, table
from tools.bench.processes import in_fresh_process
from tools.bench.timing import alternate, median_ratio

PREDICTION = """\
Written before the first measurement. The process that compilers are forked from imports torch, Inductor and Triton before the first
kernel: 5.5 s of processor time here, of which torch and Inductor are 4.5, and each compiler hashes the 441 MB of Triton's
library (0.4 s) before it compiles for 0.12 s. Inductor compiles in its own process until its pool is there, so that one kernel
takes it 0.6 s, and 16 kernels 2.5: ours takes 5 to 10 times as long where nothing comes between notice and request.

Written before what is measured now: the process imports the few modules of Inductor that kernels use and nothing else of torch, its
compilers hash nothing, and kernels are compiled in the asking process until it is there. So at most 1.0 for 1 and 4 kernels; for
16, where both sides end up with all processors, 0.8."""

OUTCOME = """\
Before: 3.1, 3.0 and 1.1 of stock's time for 1, 4 and 16 kernels (17.7, 21.9 and 26.4 s against 5.7, 7.2 and 23.5, on a machine that did
three times as much as it had processors for, as it did during the run above, whose times are therefore to be read as ratios, and
those of the last row hardly so). The server's start took 5.5 s of processor time and takes 0.9; a compiler that it forks hashes
nothing. As predicted for 1 and 4 kernels, better than predicted for 16; of processor time 1.0, 0.9 and 0.7, so that
what is left for one kernel is Triton's hash of its own library, once on either side."""

KERNELS = (1, 4, 16)
PAUSES = (0.0,)
"""Seconds between the notice and the request."""
SIDES = ("ours", "stock")
ROUNDS = 3


def _capture(folder: Path, count: int) -> None:
    """A program of `count` kernels, and the same kernels as Inductor hands them to its pool."""
    import torch

    import inductor_frontend
    import wrapper_ir
    from inductor_frontend.record import wrapper
    from inductor_frontend.record.kernels import triton_module

    def layers(*inputs: torch.Tensor) -> list[torch.Tensor]:
        f = torch.nn.functional
        return [f.layer_norm(f.gelu(x), x.shape[-1:]) for x in inputs]

    sources: dict[str, str] = {}

    def noted(name: str, text: str) -> str:
        source = triton_module(name, text)
        sources[name] = source.replace("triton_helpers.set_driver_to_gpu()", "")  # there is none
        return source

    inputs = tuple(torch.randn(8, 64 * (1 + i)) for i in range(count))
    with mock.patch.object(wrapper, "triton_module", noted), torch.no_grad():
        artifact = inductor_frontend.capture(layers, inputs, target="cuda:sm_90")
    assert len(artifact.program.kernels) == len(sources) == count
    wrapper_ir.save(artifact, folder / f"{count}.wir")
    (folder / f"{count}.json").write_text(json.dumps(sources), encoding="utf-8")


def _ours(folder: Path, count: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """The function that announces kernels to the runtime, and the one that compiles them."""
    import wrapper_ir
    from triton_runtime import KERNEL_RUNTIME

    program = wrapper_ir.load(folder / f"{count}.wir").program

    def first_configs() -> None:
        compiled = KERNEL_RUNTIME.compile(program.kernels, program.target)
        assert len(compiled) == count

    return lambda: KERNEL_RUNTIME.prepare("cuda"), first_configs


def _stock(folder: Path, count: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """The same for Inductor: as `AsyncCompile.triton` does, less launchers."""
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codecache import _load_triton_kernel_from_source as load

    from tools.bench.offline_compile import compile_here, compile_in_worker

    sources: Mapping[str, str] = json.loads((folder / f"{count}.json").read_text(encoding="utf-8"))
    environment = {"TORCHINDUCTOR_CACHE_DIR": os.environ["TORCHINDUCTOR_CACHE_DIR"]}
    settings = {"use_static_triton_launcher": config.use_static_triton_launcher}

    def compiled() -> None:
        tasks = []
        for name, source in sources.items():
            kernel = partial(load, name, source)
            if AsyncCompile.use_process_pool():  # type: ignore[no-untyped-call]  # torch's own
                pool = AsyncCompile.process_pool()
                tasks.append(pool.submit(compile_in_worker, kernel, environment, settings))
            else:
                compile_here(kernel)
        for task in tasks:
            task.result()

    return AsyncCompile.wakeup, compiled


def _processor_seconds() -> float:
    """Of this process and of all that it started, those that run and those that have ended."""
    mine = {os.getpid()}
    ticks = 0
    rows = sorted((_row(path) for path in Path("/proc").glob("[0-9]*/stat")), key=lambda row: row[0])
    for pid, parent, seconds in rows:  # a child is younger, and its number higher, until numbers start again
        if pid in mine or parent in mine:
            mine.add(pid)
            ticks += seconds
    return ticks / os.sysconf("SC_CLK_TCK")


def _row(path: Path) -> tuple[int, int, int]:
    """A process: its number, its parent's, and the ticks that it and its children that have ended took."""
    try:
        text = path.read_text()
    except OSError:  # it has just ended
        return 0, 0, 0
    fields = text.rpartition(")")[2].split()
    return int(path.parent.name), int(fields[1]), sum(map(int, fields[11:15]))


def _measure(side: str, folder: Path, count: int, pause: float) -> dict[str, float]:
    """Returns one measurement of this process."""
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401  # what has been imported when kernels are asked for

    notice, compiled = {"ours": _ours, "stock": _stock}[side](folder, count)
    processor = _processor_seconds()
    notice()
    time.sleep(pause)
    begin = time.perf_counter()
    compiled()
    return {"seconds": time.perf_counter() - begin, "processor": _processor_seconds() - processor}


def _run(side: str, folder: Path, count: int, pause: float) -> dict[str, float]:
    with (
        tempfile.TemporaryDirectory() as caches,
        mock.patch.dict(os.environ, {"TRITON_CACHE_DIR": f"{caches}/triton"}),
    ):
        one = ("--side", side, "--folder", str(folder), "--count", str(count), "--pause", str(pause))
        return in_fresh_process(("-m", __spec__.name, *one), caches)


def measure(folder: Path, count: int, pause: float, rounds: int) -> tuple[str, ...]:
    """A row of the table."""
    found = alternate({side: partial(_run, side, folder, count, pause) for side in SIDES}, rounds)
    seconds = {side: [one["seconds"] for one in found[side]] for side in SIDES}
    processor = [f"{statistics.median(one['processor'] for one in found[side]):.2f}" for side in SIDES]
    times = [f"{statistics.median(seconds[side]):.2f}" for side in SIDES]
    ratio = median_ratio(seconds["ours"], seconds["stock"])
    row = (str(count), f"{pause:g}", *times, f"{ratio:.2f}", *processor)
    print(*row, flush=True)
    return row


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; `--write` also writes the page."""
    parser = command_line(__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--pause", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.side:
        print(json.dumps(_measure(args.side, args.folder, args.count, args.pause)))
        return
    with tempfile.TemporaryDirectory() as folder:
        for count in KERNELS:
            _capture(Path(folder), count)
        rows = [measure(Path(folder), n, pause, args.rounds) for pause in PAUSES for n in KERNELS]
    headers = (
        "kernels",
        "pause, s",
        "ours, s",
        "stock, s",
        "ours / stock",
        "ours, processor",
        "stock, processor",
    )
    sections = (("Prediction", PREDICTION), ("Times", table(headers, rows)), ("Outcome", OUTCOME))
    text = page("The first kernels of a process", f"python -m {__spec__.name} --write", *sections)
    publish("first_kernels", text, args)


if __name__ == "__main__":
    main()
