"""A run: workers execute the remaining jobs, and results are stored immediately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path

import torch

from tools.conformance.cases import CaseId
from tools.conformance.pool import WORKER, Job, PoolOptions, run_jobs
from tools.conformance.programs import Kernels
from tools.conformance.results import Outcome, StockVerdict, Store, outcome_of, source_hash, verdict_of
from tools.conformance.summary import Summary, summarise

Results = Callable[[Outcome | StockVerdict], None]

SHIPPED = Path(__file__).parent / "verdicts" / f"torch-{torch.__version__.split('+')[0]}.jsonl"
"""The verdicts that the repository has for this torch."""


class Again(StrEnum):
    """Selects the cases with an outcome that run again."""

    STALE = "stale"
    """Those that ran with other sources."""
    FAILED = "failed"
    """Those that failed."""
    ALL = "all"
    NONE = "none"


class Only(StrEnum):
    """One side of a run."""

    OURS = "ours"
    STOCK = "stock"


def open_store(out: Path, device: str = "cpu") -> Store:
    """The results in `out`, with the verdicts that the repository has: it has some for CPUs."""
    version = torch.__version__
    shipped = [SHIPPED] if device == "cpu" else []
    return Store(out / f"outcomes-{version}.jsonl", [*shipped, out / f"stock-{version}.jsonl"])


def pool_options(
    out: Path, workers: int, timeout: float, budget: float | None = None, kernels: Kernels = Kernels.CPP
) -> PoolOptions:
    """Workers with one thread and one compiler each, a GPU only where kernels run on one, and all caches in
    `out`.
    """
    env = {
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str((out / "inductor").absolute()),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TRITON_CACHE_DIR": str((out / "triton").absolute()),
        "WRAPPER_IR_BUILD_JOBS": "1",
        "WRAPPER_IR_CACHE_DIR": str((out / "kernels").absolute()),
    }
    if kernels is not Kernels.GPU:
        env["CUDA_VISIBLE_DEVICES"] = ""
    return PoolOptions(
        logs=out / "logs",
        workers=workers,
        timeout=timeout,
        budget=budget,
        command=(*WORKER, kernels.value),
        env=tuple(env.items()),
    )


def jobs_of(cases: Sequence[CaseId], store: Store, again: Again, only: Only | None = None) -> list[Job]:
    """Returns the jobs needed to judge the cases, or one side of them; our side first, since Inductor's
    verdicts stay valid.
    """
    sources = source_hash()

    def wanted(case: CaseId) -> bool:
        outcome = store.outcomes.get(case)
        match again:
            case Again.STALE:
                return outcome is None or outcome.sources != sources
            case Again.FAILED:
                return outcome is None or not outcome.passed
            case Again.ALL:
                return True
            case Again.NONE:
                return outcome is None

    ours = [Job("ours", case) for case in cases if wanted(case)]
    stock = [Job("stock", case) for case in cases if case not in store.verdicts]
    match only:
        case Only.OURS:
            return ours
        case Only.STOCK:
            return stock
        case None:
            return ours + stock


def run_cases(
    cases: Sequence[CaseId], jobs: Sequence[Job], store: Store, options: PoolOptions, show: Results
) -> Summary:
    """Runs the jobs; each result is stored, then shown."""
    sources = source_hash()
    with closing(run_jobs(jobs, options)) as answers:
        for answer in answers:
            result = verdict_of(answer) if answer.job.what == "stock" else outcome_of(answer, sources)
            store.add(result)
            show(result)
    return summarise(cases, store.outcomes, store.verdicts)
