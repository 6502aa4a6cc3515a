"""Our libraries against other runtimes for CPUs, in one run, all in C++: calls, the start of a process, memory.

Usage: `python -m tools.bench.bench_native [--write] [--rounds N] [--models mlp,gpt]
[--sides native,openvino] [--folder F] [--keep] [calls calls2 start ...]`. Prints tables with ratios; `--write` also writes
`docs/benchmarks/native.md`, prediction first. Everything that it needs it makes in the folder: the runtimes
(`pip install --target`, fixed versions), exports of each model, and the drivers. A later run finds them there;
`--keep` also keeps our own exports. Processes are pinned, and asked in turn.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

from tools.bench.native.checks import checks
from tools.bench.native.environment import VERSIONS
from tools.bench.native.figures import MIB, TOLERANCES, beyond_weights, geometric_mean, is_right, over_best
from tools.bench.native.models import MODELS
from tools.bench.native.processes import Command, Server, run_driver
from tools.bench.native.sides import (
    FORM_SIDES,
    LIBTORCH,
    MISSING_SIDES,
    NATIVE,
    SIDES,
    Workshop,
    shipped_bytes,
)
from tools.bench.pages import command_line, page, publish, section_of, table
from tools.bench.timing import alternate

PREDICTION = """\
Written before a library without torch had run; goals in brackets. Of the peers, OpenVINO and ExecuTorch pack weights when they
open a model, ONNX Runtime some of them. We pack them at the build, so that opening maps them.

Start of MiniLM, 1 x 16: libtorch is 190 ms of relocations and global constructors, of which nothing is left. Opening compares
90 MB with their checksums, 15 ms; the first call takes two of the later ones, 8 ms. So 0.1 of our library with
libtorch [0.25], and 0.7 of the best peer [1.0]: ExecuTorch, which starts in 3 ms, but copies 40 MB into its own layout. Beside
the weights some 2 MiB are shipped [3], and 6 MiB are resident [8].

Calls on one thread: a product with packed weights reads them once, in order, and so does everyone's. For few rows (MLP, MiniLM of
16 tokens, a token of GPT-2) memory decides: 0.95 of the best, since a call has no graph to walk through. For many rows the inner loop decides, and
OpenVINO's is made for the machine by a just-in-time compiler: 1.05. Convolutions 1.1: OpenVINO's Winograd takes fewer products.
Geometric mean 1.0 [1.0], none above 1.15 [1.15]. On two threads the same, and less for the MLP, whose calls are too
short for a second thread.

bfloat16 and int8, written before such a table was measured. A dot instruction of bfloat16 does two products, so many rows take 0.6 of
float32's time, and a token half of its memory; the peers use the same instruction: 1.0 of the best. With int8 weights alone, the
products are those of floats: few rows take 0.3 of the time if memory decides, many rows 1.05 of float32's, and OpenVINO, which
may also round rows to int8, is faster there: 1.3. With int8 rows four products are one instruction: 0.35 of float32's
time in products, and as much again for rounding rows, which is a kernel of its own: 1.0 of ONNX Runtime."""

OUTCOME = """\
Better than predicted: the start of a process (0.09 of our library with libtorch, 0.4 of the best peer), few rows (0.66 to 0.89), and
convolutions (0.73 to 1.08). As predicted: many rows (0.93 to 1.02), 0.3 MiB of code, and 5 MiB beyond weights.
The geometric mean is 0.87 on one thread and 0.90 on two; the largest are the LSTM on one thread (1.10) and MobileNetV2 (1.06, 1.08).
With libtorch, 1,000 loads keep 123 MiB: the code of a closed library stays in the process.

int8 was measured while other processes ran, on two models. Rows that the program rounds: 0.88 and 0.70, better than predicted, since one
operator rounds, multiplies, scales and activates. With weights alone, our side rounds rows to 16 bits
(`pack-constants{rounds_rows=true}`): 1.17 for MiniLM, where 1.3 was expected. OpenVINO's weights of the MLP are float32: its export folds
small constants.
bfloat16: 0.60 to 0.95 of the best, 0.78 in the mean of four models, where 1.0 was expected: attention and matmuls use the dot instruction.
"""

METHOD = """\
Every side is a C++ process with one model (drivers in `tools/bench/native`), pinned to as many processors as it has threads. First
its results are compared with eager's. Then all sides of a model are asked in turn, in rounds; the figure of a side is
its best round. With one thread the clock is the process's own, without what other processes take; with two it is the wall's. A
ratio is the time of ours over that of the best of all other sides in the table."""

_SETTLE = 0.02
"""Seconds between rounds."""
_COPIES = """ The last column includes copies of
weights that a runtime makes in its own layout, or because it does not map its file."""
_NARROW = ("mlp", "gpt", "bert", "minilm", "minilm_batch", "gpt2_step")
"""Models that are also measured in other forms."""
_SLICE = 5_000_000
"""Nanoseconds of a round of calls."""


def _us(seconds: float) -> str:
    microseconds = seconds * 1e6
    return (
        "-"
        if math.isnan(seconds)
        else f"{microseconds:.1f}"
        if microseconds < 100
        else f"{microseconds:,.0f}"
    )


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _ratio(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


# --- calls


def _checked(servers: Mapping[str, Server], notes: list[str], name: str) -> dict[str, Server]:
    """Those that agree with eager; the others are noted."""
    tolerance = TOLERANCES[name.partition(".")[2]]
    right = dict[str, Server]()
    for title, server in servers.items():
        try:
            found = server.ask("check")
        except RuntimeError as error:
            notes.append(f"{name}, {title}: {str(error).strip().splitlines()[-1]}")
            continue
        if is_right(found["difference"], found["magnitude"], tolerance):
            right[title] = server
        else:
            notes.append(f"{name}, {title}: differs from eager by {found['difference']:.1e}")
    return right


def _timed(server: Server) -> dict[str, float]:
    """A round of calls, when threads of the side before no longer spin for work."""
    time.sleep(_SETTLE)
    return server.ask(f"time {_SLICE}")


def _call_times(
    commands: Mapping[str, Command], threads: int, rounds: int, notes: list[str], name: str
) -> dict[str, float]:
    """Seconds of a call by side, the best of the rounds."""
    clock = "cpu" if threads == 1 else "wall"
    with contextlib.ExitStack() as stack:
        servers = {
            title: stack.enter_context(Server(command, threads)) for title, command in commands.items()
        }
        right = _checked(servers, notes, name)
        answers = alternate({title: partial(_timed, server) for title, server in right.items()}, rounds)
    return {
        title: min(answer[clock] / answer["calls"] for answer in found) * 1e-9
        for title, found in answers.items()
    }


def calls(workshop: Workshop, models: Sequence[str], rounds: int, threads: int, form: str = "") -> str:
    """A table of all sides, a row a model, and the geometric means."""
    wanted = FORM_SIDES[form] if form else SIDES
    own = [title for title in (LIBTORCH, NATIVE) if title in wanted]
    rows = list[list[str]]()
    notes = [f"{title}: {why}" for title, why in MISSING_SIDES.get(form, {}).items()]
    ratios: dict[str, list[float]] = {title: [] for title in own}
    for base in models:
        name = f"{base}.{form}" if form else base
        prepared = workshop.prepare(name, wanted)
        notes += [f"{name}, {title}: {why}" for title, why in prepared.missing.items()]
        times = _call_times(prepared.commands, threads, rounds, notes, name)
        rivals = {title: {t: s for t, s in times.items() if t == title or t != NATIVE} for title in own}
        found = {title: over_best(rivals[title], title) for title in own}
        for title, ratio in found.items():
            ratios[title] += [] if math.isnan(ratio) else [ratio]
        cells = [_us(times.get(title, math.nan)) for title in wanted]
        rows.append([MODELS[base].title, *cells, *(_ratio(ratio) for ratio in found.values())])
        print(" | ".join(rows[-1]), flush=True)
    means = [
        f"{_ratio(geometric_mean(ratios[title]))} (to {_ratio(max(ratios[title], default=math.nan))})"
        for title in own
    ]
    rows.append(["geometric mean (to the largest)", *("" for _ in wanted), *means])
    headers = ("model", *(f"{title}, us" for title in wanted), *(f"{title}: ratio" for title in own))
    listed = "".join(f"\n- {note}" for note in notes)
    return table(headers, rows) + (f"\n\nNot measured:\n{listed}" if notes else "")


# --- the start of a process


def start(workshop: Workshop, rounds: int, model: str = "minilm") -> str:
    """A fresh process to its first result, what is shipped, and what is resident."""
    prepared = workshop.prepare(model, SIDES)
    answers = alternate(
        {title: partial(run_driver, command, 1, "first") for title, command in prepared.commands.items()},
        rounds + 1,
    )
    walls, rows = dict[str, float](), list[list[str]]()
    roots = (workshop.packages, Path(torch.__file__).parent)
    for title, found in answers.items():
        found = found[1:]  # the first fills caches of a runtime
        numbers = [finished.numbers for finished in found]
        assert all(is_right(n["difference"], n["magnitude"]) for n in numbers), title
        walls[title] = min(n["wall"] - n["began"] for n in numbers) * 1e-9
        # Ours have their weights in one map, and no others.
        weights = int(numbers[0]["mapped"]) * 1024 if title in (LIBTORCH, NATIVE) else prepared.weights
        case = prepared.commands[title].case
        shipped = shipped_bytes(case, SIDES[title], found[0].libraries, weights, roots)
        rows.append(
            [
                title,
                f"{walls[title] * 1e3:.1f}",
                f"{min(n['cpu'] for n in numbers) * 1e-6:.1f}",
                f"{shipped / MIB:.1f}",
                f"{min(n['resident'] for n in numbers) / 1024:.1f}",
                f"{min(beyond_weights(n) for n in numbers) / MIB:.1f}",
            ]
        )
    headers = (
        "side",
        "wall ms",
        "CPU ms",
        "MiB shipped beside weights",
        "MiB resident",
        "MiB without the mapped weights",
    )
    ours = [title for title in (LIBTORCH, NATIVE) if title in walls]
    best = min(seconds for title, seconds in walls.items() if title not in ours)
    said = [f"{title}: {walls[title] / best:.2f} of the best peer" for title in ours]
    if NATIVE in walls:
        said.append(f"{NATIVE}: {walls[NATIVE] / walls[LIBTORCH]:.2f} of {LIBTORCH}")
    return (
        table(headers, rows)
        + f"\n\nWall: {'; '.join(said)}. Weights: {prepared.weights / MIB:.1f} MiB.{_COPIES}"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; `--write` also writes the page."""
    parser = command_line(__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="rounds of calls, and of starts a sixth")
    parser.add_argument("--models", default=",".join(MODELS), help="names, with commas")
    parser.add_argument("--folder", type=Path, default=Path("out/native"), help="where everything is made")
    parser.add_argument("--sides", default="", help="names of drivers, with commas; without it all")
    parser.add_argument("--keep", action="store_true", help="keep our exports of an earlier run")
    headings = {
        "calls": "Calls on one thread",
        "calls2": "Calls on two threads",
        "bf16": "bfloat16 on one thread",
        "int8": "int8 weights on one thread",
        "int8_dynamic": "int8 weights and rows on one thread",
        "start": "A fresh process to its first result",
        "checks": "Threads, loads and processes",
    }
    parser.add_argument("what", nargs="*", default=list(headings), help=", ".join(headings))
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    workshop, models = (
        Workshop(options.folder, keep=options.keep, only=_words(options.sides)),
        _words(options.models),
    )
    narrow = [model for model in _NARROW if model in models]
    parts: Mapping[str, Callable[[], str]] = {
        "calls": lambda: calls(workshop, models, options.rounds, 1),
        "calls2": lambda: calls(workshop, models, options.rounds, 2),
        "bf16": lambda: calls(workshop, narrow, options.rounds, 1, "bf16"),
        "int8": lambda: calls(workshop, narrow, options.rounds, 1, "int8"),
        "int8_dynamic": lambda: calls(workshop, narrow, options.rounds, 1, "int8_dynamic"),
        "start": lambda: start(workshop, max(3, options.rounds // 6)),
        "checks": lambda: checks(workshop),
    }
    name = options.page or "native"
    sections = [
        (heading, parts[part]() if part in options.what else section_of(name, heading))
        for part, heading in headings.items()
    ]
    versions = ", ".join(f"{package} {version}" for package, version in VERSIONS.items())
    about = f"torch {torch.__version__}; by `pip install --target`: {versions}."
    text = page(
        "Libraries without torch, against other runtimes",
        "python -m tools.bench.bench_native --write",
        ("Prediction", PREDICTION),
        ("Measured", f"{about}\n\n{METHOD}"),
        *sections,
        ("Outcome", "" if options.page else OUTCOME),  # which is of the first page's figures
    )
    publish("native", text, options)


if __name__ == "__main__":
    main()
