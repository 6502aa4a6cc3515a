"""Models split over several GPUs, and sums over all processes: eager mode, stock torch.compile and ours in
one run.

Usage: `python -m tools.bench.bench_collectives [--write] [--world N] [--limit SECONDS] [--job NAME ...]
[--found FILE]`. Prints a table; `--write` also writes `docs/benchmarks/collectives.md`, prediction first.
Each job is a separate group of processes. All compile at the same time, and one measures at a time. Sides
that fail or return other results are named. `--found` reads the output that an earlier run wrote with
`--save`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tools.bench.collective_process import FUSED
from tools.bench.collective_rank import JOBS
from tools.bench.pages import command_line, page, publish, table
from tools.bench.processes import Processes, end_process, exit_on_termination

PREDICTION = """\
Written before the first measurement. A functional all-reduce and its wait cost 25 us of the host, a call of the group 3 us, and on
the current stream no events: the MLP of 8 layers, bound by the host, takes 0.75 of stock's call, through FX 0.85, lowered 0.6, since
128 KiB in one kernel take less than NCCL's. As a graph it is bound by the GPU: 0.3. GPT-2 small: inference 0.75, training 0.9.
An all-reduce of 1 KiB takes half of NCCL's time, of 1 MiB two-shot about as long.

Written before the first measurement of fused matmuls: a gated layer of 4096 over 2 H100, 4096 rows in bf16, multiplies for about 1.2 ms
and communicates for 0.12 ms, most of which is hidden; but matmuls are split in two, and parts are copied and summed by kernels of
their own: 0.97 of stock's call, where the other sides of ours take 1.0."""

OUTCOME = """\
As predicted without graphs: the MLP takes 0.80 of stock's call, FX 0.77, GPT-2 small 0.77 and 0.76. Better than predicted: lowered, the
MLP takes 0.49 and GPT-2 small 0.41, and recorded graphs 0.16 to 0.19. Recorded, the lowered program is no faster than the library's: all
that is left is the device's time, and 128 KiB over NVLink cost either about the same. An addition and an all-reduce through torch.compile are bound by the
call itself; the kernel by hand, which no guard stands before, takes half of NCCL's time at all sizes up to 1 MiB.

Better than predicted: a step of training takes 0.73 of stock's, lowered 0.53, with the same losses in all of 20 steps and the same memory. (Eager mode's
losses leave stock's after 8 steps: kernels that fuse round otherwise, and this rate of learning is high.) Fused matmuls: 0.93 in place of 0.97.
With weights shared out (FSDP2) a step takes 0.99 of stock's and 0.96 through FX, with its losses and no more memory. These three rows
are of 2 x NVIDIA H200, of a run each, later than the others.

Of a killed process: in the first run those over NCCL, stock's among them, were still running after four times the group's time-out, and
the program over symmetric memory ended after 26 s, twice that. Now a collective that Python and FX graphs start and finish in one call is
watched, too. The rows of ours and of ours lowered are from a second run, later: both end with WIR935 (status -6), which names the process
that is missing. Since then, on two GPUs, by `python -m pytest -s -m gpu tests/collectives/test_lost_process_gpu.py`: two sums in flight end the other process
after 9.2 s in Python, 10.7 s in an FX graph and 10.8 s in a C++ library, and recorded ones after 12.0 s, lowered 10.8 s, all with WIR935. 12.02 s
were over the time-out of 12 s: the watch looks more often now, and asks the device sooner."""

_SIDES_PAGE = (
    "eager",
    "torch.compile",
    "ours",
    "ours, FX",
    "ours, lowered",
    FUSED,
    "ours, graphs",
    "ours, lowered, graphs",
)
_MODELS = {
    "mlp": "MLP, 8 layers of 1024, 64 rows",
    "sequence_mlp": "gated MLP, 2 layers of 4096, 4096 rows, split between layers",
    "gpt_inference": "GPT-2 small, 128 tokens",
    "gpt_training": "GPT-2 small, a step of SGD",
    "fsdp_training": "GPT-2 small, weights shared out, a step of SGD",
}

_DEATHS = 75.0
"""Seconds reserved for killing processes."""
Found = dict[str, Any]  # Any: JSON


@dataclass(frozen=True, slots=True)
class _Group:
    """The processes of one job."""

    job: str
    folder: Path
    ranks: tuple[subprocess.Popen[bytes], ...]

    def log(self, rank: int = 0) -> str:
        path = self.folder / f"rank{rank}.log"
        return path.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        for process in self.ranks:
            end_process(process)


@dataclass(frozen=True, slots=True)
class _Run:
    """State of a run: its folder, processes per job, deadline, and all started processes."""

    folder: Path
    world: int
    deadline: float
    processes: Processes


def _start(job: str, label: str, run: _Run, **env: str) -> _Group:
    own = run.folder / label
    own.mkdir()
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "4",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_NVLS_ENABLE": "0",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
        "NVSHMEM_DISABLE_NVLS": "1",
        **env,
    }
    ranks = []
    for rank in range(run.world):
        module = ("-m", "tools.bench.collective_rank")
        command = (sys.executable, "-W", "ignore", *module, job, str(rank), str(run.world), str(own))
        ranks.append(run.processes.start(command, own / f"rank{rank}.log", environment))
    return _Group(job, own, tuple(ranks))


def _end(group: _Group, deadline: float) -> Found:
    """Returns the output of rank 0, or the reason why it is missing."""
    try:
        for process in group.ranks:
            process.wait(max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        pass
    group.kill()
    path = group.folder / "found.json"
    if path.exists():
        result: Found = json.loads(path.read_text(encoding="utf-8"))
        return result
    return {"failed": {"all": " ".join(group.log()[-2000:].split()) or "not within the time limit"}}


def _death(side: str, run: _Run, patience: int = 12) -> Found:
    """Kills the last process while all are busy.

    Returns whether and how the first one ends by itself, and after how long.
    """
    label = f"death {side}".replace(" ", "_").replace(",", "")
    group = _start("death", label, run, BENCH_SIDES=side, BENCH_PATIENCE=str(patience))
    try:
        while not all((group.folder / f"running{rank}").exists() for rank in range(run.world)):
            if time.monotonic() > run.deadline or any(p.poll() is not None for p in group.ranks):
                return {"side": side, "ended": False, "why": "it did not begin: " + group.log()[-300:]}
            time.sleep(0.1)
        time.sleep(1)
        os.killpg(group.ranks[-1].pid, signal.SIGKILL)
        begin = time.monotonic()
        while time.monotonic() < min(run.deadline, begin + 4 * patience):
            if group.ranks[0].poll() is not None:
                seconds, status = time.monotonic() - begin, group.ranks[0].returncode
                return {
                    "side": side,
                    "ended": True,
                    "seconds": seconds,
                    "status": status,
                    "why": group.log()[-1500:],
                }
            time.sleep(0.1)
        return {"side": side, "ended": False, "why": f"still running; limit of a group {patience} s"}
    finally:
        group.kill()


def _run(jobs: Sequence[str], world: int, limit: float) -> Found:
    """All jobs at once; then the deaths."""
    deadline = time.monotonic() + limit
    until = deadline - (_DEATHS if "death" in jobs else 0.0)
    results: Found = {"device": _device(), "world": world}
    with (
        tempfile.TemporaryDirectory() as name,
        ThreadPoolExecutor() as pool,
        Processes() as processes,  # ends first, so that the pool's threads stop waiting
    ):
        run = _Run(Path(name), world, deadline, processes)
        groups = [_start(job, job, run) for job in jobs if job != "death"]
        for group in groups:
            results[group.job] = _end(group, until)
            print(group.job, json.dumps(_brief(results[group.job])), flush=True)
        if "death" in jobs:
            sides = ("ours", "ours, lowered") if torch.cuda.is_available() else ("ours",)
            kills = [pool.submit(_death, side, run) for side in sides]
            results["death"] = [kill.result() for kill in kills]
            print("death", json.dumps(results["death"]), flush=True)
    return results


def _brief(result: Found) -> Found:
    times = result.get("times") or {}
    best = {side: round(min(values) * 1e6) for side, values in times.items()}
    return {
        "us": best,
        "failed": result.get("failed"),
        "rows": result.get("rows"),
        "held": result.get("held"),
    }


def _device() -> str:
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    return f"{name}, torch {torch.__version__}"


def _ratio(times: Mapping[str, list[float]], side: str, against: str = "torch.compile") -> str:
    if side not in times or against not in times:
        return ""
    return f"{statistics.median(a / b for a, b in zip(times[side], times[against], strict=True)):.2f}"


def _models(results: Found) -> str:
    rows = []
    for job, title in _MODELS.items():
        times = results.get(job, {}).get("times") or {}
        cells = [
            f"{min(times[side]) * 1e6:.0f} ({_ratio(times, side)})" if side in times else ""
            for side in _SIDES_PAGE
        ]
        rows.append([title, *cells])
    return table(("model", *_SIDES_PAGE), rows)


def _latency(results: Found) -> str:
    sizes: Mapping[str, Mapping[str, list[float]]] = results.get("latency", {}).get("sizes") or {}
    sides = list(dict.fromkeys(side for times in sizes.values() for side in times))
    rows = []
    for nbytes, times in sizes.items():
        rows.append([nbytes, *(f"{min(times[side]) * 1e6:.1f}" if side in times else "" for side in sides)])
    return table(("bytes", *sides), rows) if rows else ""


def _training(job: Found) -> str:
    curves, peaks = job.get("curves") or {}, job.get("held") or {}
    if "torch.compile" not in curves:
        return ""
    stock = curves["torch.compile"]
    rows = []
    for side, curve in curves.items():
        apart = max(abs(a - b) for a, b in zip(curve, stock, strict=True))
        rows.append(
            [side, f"{curve[0]:.4f}", f"{curve[-1]:.4f}", f"{apart:.4f}", f"{peaks[side] / 2**20:.1f}"]
        )
    return table(
        ("side", "first loss", "last loss", "furthest from torch.compile's", "MiB held at most"), rows
    )


def _endurance(results: Found) -> str:
    rows = results.get("endurance", {}).get("rows") or []
    return table(("calls", "bytes allocated", "bytes free on the device"), rows) if rows else ""


def _deaths(results: Found) -> str:
    lines = []
    for one in results.get("death") or []:
        if one["ended"]:
            lines.append(
                f"- {one['side']}: rank 0 ended after {one['seconds']:.1f} s with status {one['status']}."
            )
        else:
            lines.append(f"- {one['side']}: rank 0 did not end: {' '.join(one['why'].split())}")
    return "\n".join(lines)


def _failures(results: Found) -> str:
    failed = [f"- {job}, {side}: {why}" for job in JOBS for side, why in (_failed(results, job)).items()]
    return "\n".join(failed) or "No side failed, or gave other results."


def _failed(results: Found, job: str) -> dict[str, str]:
    entry = results.get(job)
    return dict(entry.get("failed") or {}) if isinstance(entry, dict) else {}


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints, or writes the page."""
    parser = command_line(__doc__)
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--limit", type=float, default=600.0, metavar="SECONDS")
    parser.add_argument(
        "--job", action="append", choices=list(JOBS), help="only this one; can be given again"
    )
    parser.add_argument("--save", type=Path, help="also write what was found, as JSON")
    parser.add_argument("--found", type=Path, help="measure nothing: the page of an earlier run")
    args: argparse.Namespace = parser.parse_args(argv)
    exit_on_termination()
    if args.found:
        results: Found = json.loads(args.found.read_text(encoding="utf-8"))
    else:
        results = _run(args.job or list(JOBS), args.world, args.limit)
    if args.save:
        args.save.write_text(json.dumps(results), encoding="utf-8")
    head = f"{results['world']} x {results['device']}. Microseconds until a call has finished on all processes, the best of 9 rounds; in brackets the median over the rounds of the share of `torch.compile`'s."
    text = page(
        "Collectives on several GPUs",
        "python -m tools.bench.bench_collectives --write",
        ("Prediction", PREDICTION),
        ("Models", f"{head}\n\n{_models(results)}"),
        ("An addition and an all-reduce", _latency(results)),
        ("20 steps of training", _training(results.get("gpt_training", {}))),
        ("20 steps of training, weights shared out", _training(results.get("fsdp_training", {}))),
        ("10,000 calls", _endurance(results)),
        ("One process is killed", _deaths(results)),
        ("Failures", _failures(results)),
        ("Outcome", OUTCOME),
    )
    publish("collectives", text, args)


if __name__ == "__main__":
    main()
