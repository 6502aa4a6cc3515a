"""Ahead-of-time C++ for a CPU against AOTInductor, in one run: builds, packages, loads and calls.

Usage: `python -m tools.bench.bench_cpp [--write] [--rounds N] [build growth load calls ...]`. Prints tables;
`--write` also writes `docs/benchmarks/cpp.md`, prediction first. Builds and loads are separate processes,
with caches in empty folders (`tools.bench.cpp_sides`); sides alternate. Their seconds are processor time in
user mode, including compilers, so that they do not depend on other load. Calls are timed in one process, on
one thread.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch._inductor

import cpp_wrapper
import inductor_frontend
from cpp_wrapper import CppOptions
from cpp_wrapper._compat import open_runner
from tests.common.zoo import ZOO, Case, gpt2
from tools.bench.pages import command_line, page, publish, section_of, table
from tools.bench.processes import in_fresh_process
from tools.bench.timing import alternate, best_seconds, keep_memory, median_ratio, timed
from wrapper_ir_passes import MEMORY_PASSES, run_pipeline

PREDICTION = """\
Goals in brackets. What is said of builds, packages and loads was written before they were measured; what is said of calls after
a first look at them. AOTInductor's wrapper includes torch's container headers and has one RAII object a handle; ours includes no
header of torch, frees handles in one array and is compiled in functions of 200 lines.
Both compile the same kernels. So a build takes at most 0.5 of AOTInductor's with the capture [0.5], and 0.25 from sources to
library [0.25]; twice the blocks or calls take twice the time. A package is smaller by the headers' code. It is mapped, not
extracted, and nothing is compiled to ask what the processor can do: a load takes 0.2 [0.2].

A call of the MLP is its matmuls and some 2 us of the runner: 0.95 through torch's runner [0.95], and 0.5 through our
loader [0.55], which binds arguments in C++ where torch's package flattens them in Python. A call of the GPT is operators by
nine tenths: 0.95 [0.95] and 0.75 [0.75].

Written before the runtime called BLAS for small matmuls: torch's `addmm` of the GPT's sizes takes 1.4 to 2.3 us, of which BLAS
takes 0.4 to 1.2, and there are 17: 18 us of 156 less, 0.74 of AOTInductor's package with persistent buffers. Before wheels brought
the runtime's object: 2.1 of the 4.1 s from sources to library are its unit, so 0.15 to 0.18."""

CACHES = """\
Builds with "empty" caches find nothing, and leave what all later ones share: AOTInductor's two precompiled headers, which Inductor
keeps below TMPDIR, outside its cache folder. Wheels for Linux bring the object of our runtime; from a pure wheel the first build
compiles it, too. Caches "of earlier builds" are those that a build of another model left, with the header of our kernels
precompiled, as it is from the fifth build on (`CppOptions.precompile_after`)."""

OUTCOME = """\
As predicted: builds from ExportedProgram and from sources to library with empty caches (0.15; from a pure wheel 0.32 and 0.31, of
which the runtime's unit is half, and most of the rest the kernels' header), sources to library with caches of earlier builds,
growth, loads, and all calls of the MLP and of the GPT, planned or with persistent buffers. Matmuls by BLAS took 18 us from the GPT's
call and 3.5 from the MLP's, which was 0.51 of AOTInductor's package before. Through our loader the GPT was at 0.85, 0.76 and 0.71 on
another machine, before the library made containers of outputs with one call of Python each. (That machine was shared, at a load
of 7: walls of builds and loads say little.) An earlier edition gave MiniLM 1.06 of AOTInductor's sources to library: its precompiled headers (9.4 s) were those
that the GPT before it had left.

Not reached: 0.5 from ExportedProgram with caches of earlier builds (0.61 and 0.66: nearly all of it is the capture, which runs
torch's export and lowering as AOTInductor does); and 0.75 of the GPT through our loader as captured (0.79; 0.75 in another run):
it allocates each buffer in every call. Of the GPT's call most are four attentions (`perf`: half of each is in torch's own
loop over heads)."""

OUTCOME_OF_CALLS = """\
"planned" has the passes of memory planning; "persistent buffers" is `CppOptions(persistent_buffers=True)`: intermediate results
lie in memory that is held from call to call. The loaders give the model's own output structure; a GPT of transformers returns
a data class, which both make in Python."""

_MODELS: dict[str, Callable[[], Case]] = {
    "MLP, 4 x linear 64, batch 8": ZOO["mlp"],
    "GPT-2, 4 blocks of width 32": lambda: gpt2(layers=4),
}
_BUILDS = {"GPT-2, 4 blocks": "gpt2:4", "MiniLM, with its weights": "minilm"}
_BLOCKS = (8, 16, 32, 64)
_STOCK_BLOCKS = 16
"""AOTInductor takes minutes for more."""
_MATMULS = (1_250, 2_500, 5_000, 10_000)
_WIDTH = 40


def _fresh(arguments: Sequence[str]) -> dict[str, float]:
    """Returns one measurement with empty caches."""
    with tempfile.TemporaryDirectory() as caches:
        return in_fresh_process(("-m", "tools.bench.cpp_sides", *arguments), caches)


def _prepared(arguments: Sequence[str]) -> dict[str, float]:
    """Returns one measurement with caches as earlier builds of other models leave them."""
    with tempfile.TemporaryDirectory() as caches:
        in_fresh_process(
            ("-m", "tools.bench.cpp_sides", arguments[0], "prepare", "mlp", f"{caches}/m.pt2"), caches
        )
        return in_fresh_process(("-m", "tools.bench.cpp_sides", *arguments), caches)


_Measure = Callable[[Sequence[str]], dict[str, float]]


def _sides(measure: _Measure, rounds: int, *arguments: str) -> dict[str, list[dict[str, float]]]:
    return alternate({side: partial(measure, (side, *arguments)) for side in ("ours", "theirs")}, rounds)


# --- builds and loads


def _pair(
    measurements: Mapping[str, list[dict[str, float]]], name: str, unit: float = 1.0, side: str = "ours"
) -> tuple[str, str, str]:
    """The best of each side, and the median of the rounds' ratios."""
    ours, theirs = ([one[name] for one in measurements[which]] for which in (side, "theirs"))
    return f"{min(ours) / unit:.2f}", f"{min(theirs) / unit:.2f}", f"{median_ratio(ours, theirs):.2f}"


def builds(rounds: int) -> str:
    """Whole builds, and their part from sources to library."""
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, model in _BUILDS.items():
            parts = (model, f"{folder}/m.pt2")
            ways = {
                "theirs": ("theirs", "build", *parts),
                "ours": ("ours", "wheel", *parts),
                "pure": ("ours", "build", *parts),
            }
            empty = alternate({side: partial(_fresh, way) for side, way in ways.items()}, rounds)
            measurements = _sides(_prepared, rounds, "build", *parts)
            for caches, of, side in (
                ("empty", empty, "ours"),
                ("empty, pure wheel", empty, "pure"),
                ("of earlier builds", measurements, "ours"),
            ):
                rows.append((name, caches, "from ExportedProgram, user s", *_pair(of, "user", side=side)))
                rows.append((name, caches, "from ExportedProgram, wall s", *_pair(of, "wall", side=side)))
                rows.append((name, caches, "sources to library, user s", *_pair(of, "compiler", side=side)))
            rows.append((name, "", "package, MB", *_pair(measurements, "bytes", 1e6)))
    return table(("model", "caches", "what", "ours", "AOTInductor", "ratio"), rows)


def _curve(unit: str, points: Mapping[int, float]) -> str:
    """Seconds by size, drawn; a straight line through nothing is linear."""
    most = max(points.values())
    lines = [
        f"{size:>7,} {unit} {'#' * max(1, round(_WIDTH * seconds / most)):<{_WIDTH}} {seconds:7.2f} s"
        for size, seconds in points.items()
    ]
    return "\n".join(("```text", *lines, "```"))


def growth() -> str:
    """Sources to library by the size of a model, and of one function."""
    ours, theirs = dict[int, float](), dict[int, float]()
    with tempfile.TemporaryDirectory() as folder:
        for blocks in _BLOCKS:
            parts = ("build", f"gpt2:{blocks}", f"{folder}/m.pt2")
            ours[blocks] = _fresh(("ours", *parts))["compiler"]
            if blocks <= _STOCK_BLOCKS:
                theirs[blocks] = _fresh(("theirs", *parts))["compiler"]
    calls = {count: _fresh(("ours", "matmuls", str(count)))["user"] for count in _MATMULS}
    return "\n\n".join(
        (
            "GPT-2, user seconds from sources to library, ours:",
            _curve("blocks", ours),
            "AOTInductor's:",
            _curve("blocks", theirs),
            "A program of that many matmuls, each with its allocation, from program to library, ours:",
            _curve("matmuls", calls),
        )
    )


def loads(rounds: int) -> str:
    """A package in a fresh process."""
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, model in _BUILDS.items():
            paths = {side: f"{folder}/{model}_{side}.pt2" for side in ("ours", "theirs")}
            for side, path in paths.items():
                _fresh((side, "build", model, path))
            measurements = {side: [_fresh((side, "load", path))] for side, path in paths.items()}
            rows += [(name, "empty", f"{clock} s", *_pair(measurements, clock)) for clock in ("user", "wall")]
            measurements = _warm_loads(paths, f"{folder}/caches", rounds)
            rows += [
                (name, "of earlier loads", f"{clock} s", *_pair(measurements, clock))
                for clock in ("user", "wall")
            ]
    return table(
        ("package", "torch's caches", "load in a fresh process", "ours", "AOTInductor", "ratio"), rows
    )


def _warm_loads(paths: Mapping[str, str], caches: str, rounds: int) -> dict[str, list[dict[str, float]]]:
    """Measures loads with caches that an earlier load has filled: torch's loader queries the compiler for the
    processor once.
    """
    sides = {
        side: partial(in_fresh_process, ("-m", "tools.bench.cpp_sides", side, "load", path), caches)
        for side, path in paths.items()
    }
    alternate(sides, 1)
    return alternate(sides, rounds)


# --- calls


@dataclass(frozen=True, slots=True)
class _Libraries:
    """Of one model: packages and libraries by name; `stock` is AOTInductor's."""

    case: Case
    packages: Mapping[str, Path]
    libraries: Mapping[str, Path]


def _libraries(case: Case, folder: Path) -> _Libraries:
    kwargs = dict(case.kwargs or {})
    program = torch.export.export(case.model, case.args, kwargs)
    artifact = inductor_frontend.capture(program, case.args, kwargs)
    planned = replace(artifact, program=run_pipeline(artifact.program, MEMORY_PASSES))
    persistent = CppOptions(persistent_buffers=True)
    ways: dict[str, Callable[[Path], object]] = {
        "as captured": partial(cpp_wrapper.build, artifact),
        "planned": partial(cpp_wrapper.build, planned),
        "persistent buffers": partial(cpp_wrapper.build, artifact, options=persistent),
    }
    packages, libraries = dict[str, Path](), dict[str, Path]()
    for name, build in ways.items():
        packages[name], libraries[name] = folder / f"{name}.pt2", folder / f"{name}.so"
        build(packages[name])
        build(libraries[name])
    packages["stock"] = folder / "stock.pt2"
    torch._inductor.aoti_compile_and_package(program, package_path=str(packages["stock"]))
    with zipfile.ZipFile(packages["stock"]) as archive:
        archive.extractall(folder / "stock")
    (libraries["stock"],) = (folder / "stock").rglob("*.so")
    return _Libraries(case, packages, libraries)


def _seconds(run: Callable[[], object], seconds: float = 0.004) -> Callable[[], float]:
    """Measures a call, as the mean over a short round."""
    run()
    calls = max(1, int(seconds / max(best_seconds(run, 5), 1e-7)))

    def repeated() -> None:
        for _ in range(calls):
            run()

    return lambda: timed(repeated)[0] / calls


def _compared(runs: Mapping[str, Callable[[], object]], rounds: int) -> list[tuple[str, str, str, str]]:
    """Returns rows of (way, best us, AOTInductor's best us, ratio of the two).

    Under other load on the machine, the best of many short rounds is the most stable figure.
    """
    best = {
        name: min(times)
        for name, times in alternate({n: _seconds(r) for n, r in runs.items()}, rounds).items()
    }
    stock = best.pop("stock")
    return [
        (name, f"{mine * 1e6:.1f}", f"{stock * 1e6:.1f}", f"{mine / stock:.2f}")
        for name, mine in best.items()
    ]


def calls(rounds: int) -> str:
    """Calls of small models, through torch's runner and through each side's own loader."""
    keep_memory()
    rows: list[tuple[str, ...]] = []
    for title, make in _MODELS.items():
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            libraries = _libraries(make(), Path(folder))
            args, kwargs = libraries.case.args, dict(libraries.case.kwargs or {})
            flat = [*args, *kwargs.values()]
            runners = {name: open_runner(path) for name, path in libraries.libraries.items()}
            through = {name: partial(runner.run, flat) for name, runner in runners.items()}
            rows += [(title, "torch's runner", *row) for row in _compared(through, rounds)]
            loaded: dict[str, Any] = {
                name: torch._inductor.aoti_load_package(str(path))
                if name == "stock"
                else cpp_wrapper.load(path)
                for name, path in libraries.packages.items()
            }
            own = {name: partial(program, *args, **kwargs) for name, program in loaded.items()}
            rows += [(title, "own loader", *row) for row in _compared(own, rounds)]
    return table(("model", "called through", "program", "ours us", "AOTInductor us", "ratio"), rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints; `--write` also writes the page."""
    parser = command_line(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side")
    parser.add_argument("--call-rounds", type=int, default=500)
    parts: dict[str, Callable[[], str]] = {
        "build": lambda: builds(options.rounds),
        "growth": growth,
        "load": lambda: loads(4 * options.rounds),
        "calls": lambda: f"{calls(options.call_rounds)}\n\n{OUTCOME_OF_CALLS}",
    }
    headings = {"build": "Builds", "growth": "Growth", "load": "Loads", "calls": "Calls"}
    parser.add_argument("what", nargs="*", default=list(parts), help=", ".join(parts))
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    about = f"torch {torch.__version__}, one thread; processes of each side: {options.rounds}."
    earlier = {name: section_of(options.page or "cpp", headings[name]) for name in parts}
    unchanged = [headings[name] for name in parts if name not in options.what and earlier[name]]
    about += f" Of an earlier run: {', '.join(unchanged).lower()}." if unchanged else ""
    measured = [
        (headings[name], part() if name in options.what else earlier[name]) for name, part in parts.items()
    ]
    text = page(
        "Ahead-of-time C++ on a CPU",
        "python -m tools.bench.bench_cpp --write",
        ("Prediction", PREDICTION),
        ("Measured", f"{about}\n\n{CACHES}"),
        *measured,
        ("Outcome", "" if options.page else OUTCOME),  # which is of the first page's figures
    )
    publish("cpp", text, options)


if __name__ == "__main__":
    main()
