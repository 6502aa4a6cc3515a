"""`docs/conformance.md`: totals a stage, and every case that fails or does not count, with its reason."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import wrap

import torch

from tools.conformance.programs import Kernels, Source
from tools.conformance.reasons import failure_detail, failure_reason, stock_reason
from tools.conformance.stages import STAGES, Stage
from tools.conformance.summary import Judged, Summary

_WIDTH = 118
_LEFT = "Stock `torch.compile` compiles nothing of these, so there is nothing to capture: eager runs them."


def render(summary: Summary, seed: int, kernels: Kernels = Kernels.CPP) -> str:
    """The page."""
    parts = (
        _HEADS[kernels](seed),
        _totals(summary, STAGES[kernels]),
        _sources(summary),
        _failing(summary),
        _uncounted(summary),
    )
    return "\n".join(line for part in parts for line in part)


def _head(seed: int) -> list[str]:
    return [
        "# Conformance",
        "",
        "<!-- written by `python -m tools.conformance`; do not edit -->",
        "",
        *_paragraph(
            "Torch's operator database through every path: capture, verifier, text and JSON round trips, interpreter, "
            'emitted Python, and `torch.compile(backend="wrapper_ir")`. Results, and inputs after the call, are held '
            "against eager with torch's tolerances; random values against those of stock `torch.compile` from the same "
            "random state. For each operator: its first sample in float32 (or its first dtype), and a random sample in "
            "another dtype."
        ),
        *_command("python -m tools.conformance", seed),
    ]


def _triton_head(seed: int) -> list[str]:
    return [
        "# Conformance of Triton kernels",
        "",
        "<!-- written by `python -m tools.conformance --kernels triton`; do not edit -->",
        "",
        *_paragraph(
            "Torch's operator database, captured with Triton kernels over CPU tensors "
            '(`CaptureOptions(cpu_kernels="triton")`): capture, verifier, text and JSON round trips, and emitted Python, '
            "whose kernels Triton's interpreter runs. Results, and inputs after the call, are held against eager with "
            "torch's tolerances; random numbers are drawn as eager draws them. For each operator: its first sample in float32 (or "
            "its first dtype), and a random sample in another dtype."
        ),
        *_paragraph(
            "Those cases count that stock `torch.compile` gets right with its own C++ kernels: with Triton kernels it "
            "compiles for a CPU only where Triton has a CPU compiler, which its releases lack."
        ),
        *_command("python -m tools.conformance --kernels triton", seed),
    ]


def _gpu_head(seed: int) -> list[str]:
    return [
        "# Conformance on a GPU",
        "",
        "<!-- written by `python -m tools.conformance --kernels gpu`; do not edit -->",
        "",
        *_paragraph(
            f"Torch's operator database with inputs on one {torch.cuda.get_device_name()}: "
            "capture, verifier, text and JSON round trips, the interpreter, emitted Python, FX graphs, and "
            '`torch.compile(backend="wrapper_ir")`. Results, and inputs after the call, are held against eager with '
            "torch's tolerances, random values against Inductor's own. For each operator: its first sample in float32 (or "
            "its first dtype), and a random sample in bfloat16."
        ),
        *_command("python -m tools.conformance --kernels gpu", seed),
    ]


_HEADS: Mapping[Kernels, Callable[[int], list[str]]] = {
    Kernels.CPP: _head,
    Kernels.TRITON: _triton_head,
    Kernels.GPU: _gpu_head,
}


def _command(command: str, seed: int) -> list[str]:
    version = torch.__version__.split("+")[0]
    return _paragraph(
        f"torch {version}, Python {platform.python_version()}, {platform.machine()}, seed {seed}. Command: "
        f"`{command}`; one case: `{command} --op NAME --again all`."
    )


def _totals(summary: Summary, stages: Sequence[Stage]) -> list[str]:
    judged, counted = summary.judged, summary.counted
    eager, wrong = summary.left_to_eager, len(summary.wrong_in_stock)
    beyond = sum(j.outcome.passed for j in eager)
    return [
        *_paragraph(
            f"Of {len(judged)} cases, stock `torch.compile` compiles and gets right {len(counted)}: these count. "
            f"It compiles nothing of {len(eager)}, which eager runs (of these, {beyond} pass every path below all the "
            f"same), and refuses or gets wrong {wrong}."
        ),
        "| path | pass | of | share |",
        "| --- | ---: | ---: | ---: |",
        *(_row(s.value, sum(j.outcome.passed_in(s) for j in counted), len(counted)) for s in stages),
        _row("**all**", len(counted) - len(summary.failing), len(counted)),
        "",
    ]


def _row(name: str, passed: int, total: int) -> str:
    share = f"{100 * passed / total:.2f} %" if total else "–"
    return f"| {name} | {passed} | {total} | {share} |"


def _sources(summary: Summary) -> list[str]:
    counted = summary.counted
    exported, compiled = (
        [j.outcome for j in counted if j.outcome.source == s] for s in (Source.EXPORT, Source.COMPILE)
    )
    text = f"Programs come from torch.export in {len(exported)} of the cases that count"
    if compiled:
        graphs = sum(outcome.programs for outcome in compiled)
        text += f", and in {len(compiled)} that it refuses from the {graphs} graphs that torch.compile makes of them"
    random = sum(j.outcome.random for j in counted)
    kernels = sum(j.outcome.kernels > 0 for j in counted)
    return _paragraph(f"{text}. The programs of {kernels} have kernels. {random} have random values.")


def _failing(summary: Summary) -> list[str]:
    if not summary.failing:
        return ["## Failing cases", "", "None.", ""]
    return [
        "## Failing cases",
        "",
        "| case | path | reason | code | the error says |",
        "| --- | --- | --- | --- | --- |",
        *failing_lines(summary.failing),
        "",
    ]


def failing_lines(judged: Sequence[Judged]) -> list[str]:
    """A table row for each failure, those of one reason together."""
    rows = [(failure_reason(f), j.case, f) for j in judged for f in j.outcome.failures]
    rows.sort(key=lambda row: (row[0], row[1], list(Stage).index(row[2].stage)))
    return [
        f"| `{case}` | {f.stage.value} | {reason} | {f.code} | {_cell(failure_detail(f))} |"
        for reason, case, f in rows
    ]


def _uncounted(summary: Summary) -> list[str]:
    groups = {_LEFT: summary.left_to_eager, **_grouped(summary.wrong_in_stock, _why_not)}
    lines = ["## Cases that do not count", ""]
    for reason, judged in groups.items():
        if judged:
            lines += _paragraph(f"**{reason}** On our side, of {len(judged)}:")
            for ours, cases in _grouped(judged, _our_side).items():
                names = ", ".join(f"`{j.case}`" for j in sorted(cases, key=lambda j: j.case))
                lines += _paragraph(f"- {ours} {len(cases)}: {names}.", indent="  ")
    return lines


def _grouped(judged: Iterable[Judged], key: Callable[[Judged], str]) -> Mapping[str, list[Judged]]:
    groups: dict[str, list[Judged]] = {}
    for j in judged:
        groups.setdefault(key(j), []).append(j)
    return dict(sorted(groups.items()))


def _why_not(judged: Judged) -> str:
    broken = judged.outcome.broken
    return stock_reason(f"eager: {broken}" if broken else judged.verdict.error)


def _our_side(judged: Judged) -> str:
    if judged.outcome.broken:
        return "Not run."
    if judged.outcome.passed:
        return "Every path passes."
    failures = judged.outcome.failures
    codes = " and ".join(dict.fromkeys(f"{f.stage.value} {f.code}" for f in failures))
    return f"{failure_reason(failures[0])} ({codes})"


def _paragraph(text: str, indent: str = "") -> list[str]:
    # Words within backticks stay on one line: a line break there would be part of the name.
    parts = text.split("`")
    joined = "`".join(part.replace(" ", "\0") if i % 2 else part for i, part in enumerate(parts))
    lines = wrap(joined, _WIDTH, break_long_words=False, break_on_hyphens=False, subsequent_indent=indent)
    return [*(line.replace("\0", " ") for line in lines), ""]


def _cell(text: str) -> str:
    """Text for a table cell, shown as it is."""
    text = text if len(text) <= 160 else text[:159] + "…"
    for character in ("\\", "|", "*", "_"):
        text = text.replace(character, "\\" + character)
    return text.replace("<", "&lt;")
