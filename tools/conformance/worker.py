"""The process that runs cases: one job per line on standard input, one answer per line on standard output.

A job is `{"what": "ours" | "stock" | "fx" | "stock_fx" | "cpp" | "stock_cpp" | "native" | "planned" |
"build_cpp",
"case": {...}, "more": [...]}`, where "more" are further cases of one build. Answers are `{"at": STAGE}`
before each step, so that a crash has a place (the first is empty: the worker is ready), and last `{"done":
{...}}`: for ours the result of the check, for Inductor a verdict, or `{"broken": REASON}` if eager itself
cannot run the case. The one argument is the language of the kernels.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
import warnings
from dataclasses import asdict
from functools import partial
from typing import Any, TextIO

from tools.conformance.cases import CaseId, OpTable, load_call, op_table
from tools.conformance.pool import BUILD
from tools.conformance.programs import Kernels
from tools.conformance.stages import Stage, build_libraries, check_case
from tools.conformance.stock import judge, judge_library

_ONLY = {
    "fx": (Stage.CAPTURE, Stage.FX),
    "cpp": (Stage.CAPTURE, Stage.CPP),
    "native": (Stage.CAPTURE, Stage.NATIVE),
    "planned": (Stage.CAPTURE, Stage.PLANNED),
}
"""The stages of jobs that have some alone."""


def main() -> None:
    """Answers jobs until standard input ends."""
    kernels = Kernels(sys.argv[1]) if len(sys.argv) > 1 else Kernels.CPP
    answers = _own_stdout()
    warnings.simplefilter("ignore")
    table = op_table()
    _write(answers, {"at": ""})
    for line in sys.stdin:
        job = json.loads(line)
        cases = [CaseId(**fields) for fields in (job["case"], *job["more"])]
        if job["what"] == BUILD:
            result = _build(cases, table)
        else:
            result = _answer(job["what"], cases[0], kernels, table, answers)
        _write(answers, {"done": result})
        gc.collect()


def _own_stdout() -> TextIO:
    """Reserves standard output for answers: all other output is redirected to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _write(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def _announce(answers: TextIO, stage: Stage) -> None:
    _write(answers, {"at": stage.value})


def _build(cases: list[CaseId], table: OpTable) -> dict[str, Any]:
    try:
        build_libraries((case, load_call(case, table)) for case in cases)
    except Exception:
        traceback.print_exc()  # then each case builds its own
    return {}


def _answer(what: str, case: CaseId, kernels: Kernels, table: OpTable, answers: TextIO) -> dict[str, Any]:
    try:
        call = load_call(case, table, kernels.device)
        if what == "stock":
            return asdict(judge(case, call))
        if what == "stock_fx":
            return asdict(judge(case, call, fx=True))
        if what == "stock_cpp":
            return asdict(judge_library(case, call))
        only = _ONLY.get(what)
        announce = partial(_announce, answers)
        return asdict(check_case(case, call, announce, kernels, only))
    except Exception as error:
        traceback.print_exc()
        return {"broken": f"{type(error).__name__}: {' '.join(str(error).split())}"}


if __name__ == "__main__":
    main()
