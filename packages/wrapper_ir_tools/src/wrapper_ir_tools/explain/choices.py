"""Explains the choice of kernels and operators: candidates, the reason, and times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.choices import CHOICES, Candidate, Choice, read_choices
from wrapper_ir_tools.explain.model import ExplainedKernel, ExplainedOp


def choices_of(
    artifact: Artifact, explained: Sequence[ExplainedOp], kernels: Sequence[ExplainedKernel]
) -> Iterator[Choice]:
    """Yields the recorded choices, the open ones, and the reasons for all other kernels and operators."""
    launches = {k.name: k.ops for k in kernels}
    calls: dict[str, list[int]] = {}
    for op in explained:
        if op.extern:
            calls.setdefault(op.extern, []).append(op.index)
    explained_names: set[str] = set()
    for item in read_choices(artifact.extensions.get(CHOICES, "")):
        names = [n for n in item["kernels"] if isinstance(n, str)]
        explained_names.update(names)
        ops = tuple(sorted({i for n in names for i in (*launches.get(n, ()), *calls.get(n, ()))}))
        yield Choice(
            subject=item["subject"],
            why=item["why"],
            ops=ops,
            candidates=tuple(_candidate(c) for c in item["candidates"] if isinstance(c, dict)),
        )
    for kernel in artifact.program.kernels:
        if kernel.name not in explained_names:
            why, candidates = _of_kernel(kernel)
            ops = launches.get(kernel.name, ())
            yield Choice(subject=f"@{kernel.name}", why=why, ops=ops, candidates=candidates)
    for name, at in calls.items():
        if name not in explained_names:
            yield Choice(
                subject=name, why="an operator of a library: no other way was offered", ops=tuple(at)
            )


def _of_kernel(kernel: ir.KernelDef) -> tuple[str, tuple[Candidate, ...]]:
    """Returns why a kernel without a recorded choice was taken, and the candidates."""
    match kernel:
        case ir.MultiKernel():
            choice = kernel.choice.value
            why = f"open: one of these is chosen by {choice} when the program is tuned or runs"
            return why, tuple(Candidate(name=f"@{v.kernel}") for v in kernel.variants)
        case ir.TritonKernel(configs=configs) if configs:
            heuristic = f"the heuristic {kernel.heuristic}" if kernel.heuristic else "its definition"
            candidates = tuple(Candidate(name=_config(c), chosen=i == 0) for i, c in enumerate(configs))
            if len(configs) == 1:
                return f"the only config of {heuristic}", candidates
            options = f"one of {len(configs)} configs of {heuristic}"
            return f"open: {options} is taken when it is tuned, else the first", candidates
        case ir.OperatorKernel():
            return "an operator in place of a kernel", ()
        case _:
            return f"the {kernel.kind} kernel that was generated for these ops", ()


def _config(config: ir.TritonConfig) -> str:
    meta = [f"{name}={value}" for name, value in config.meta]
    return " ".join([*meta, f"warps={config.num_warps}", f"stages={config.num_stages}"])


def _candidate(item: Mapping[str, object]) -> Candidate:
    time = item.get("microseconds")
    return Candidate(
        name=str(item.get("name", "")),
        microseconds=float(time) if isinstance(time, int | float) else None,
        chosen=item.get("chosen") is True,
        detail=str(item.get("detail", "")),
    )
