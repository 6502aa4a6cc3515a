"""Results as JSON lines, appended immediately, so that an interrupted run resumes."""

from __future__ import annotations

import hashlib
import json
import re
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.conformance.cases import CaseId
from tools.conformance.pool import Answer
from tools.conformance.stages import CRASH, Failure, Stage
from tools.conformance.stock import Verdict

_ROOT = Path(__file__).parents[2]
_REASON = 400  # characters
_CHECKING = ("cases.py", "collector.py", "compare.py", "programs.py", "stages.py")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a case on our side.

    `sources` identifies the code that ran. `broken` is the reason why eager itself cannot run it (else
    empty). `source` is the source of its programs (empty if there are none). `random` marks Inductor's values
    as the oracle.
    """

    case: CaseId
    sources: str
    seconds: float
    failures: tuple[Failure, ...] = ()
    broken: str = ""
    source: str = ""
    programs: int = 0
    random: bool = False
    kernels: int = 0

    @property
    def passed(self) -> bool:
        """Every stage passed."""
        return not self.failures and not self.broken

    def passed_in(self, stage: Stage) -> bool:
        """Returns whether the stage was reached, and passed."""
        return not self.broken and not any(f.stage is stage or f.blocks(stage) for f in self.failures)


@dataclass(frozen=True, slots=True)
class StockVerdict:
    """Inductor's verdict on a case."""

    case: CaseId
    verdict: Verdict


def outcome_of(answer: Answer, sources: str) -> Outcome:
    """The outcome that a worker's answer means; a lost worker failed in the stage it had announced."""
    case, seconds = answer.job.case, round(answer.seconds, 2)
    if answer.done is None:
        failure = Failure(Stage(answer.at or Stage.CAPTURE), CRASH, answer.lost)
        return Outcome(case, sources, seconds, (failure,))
    if "broken" in answer.done:
        return Outcome(case, sources, seconds, broken=tidy(answer.done["broken"]))
    result = answer.done
    failures = tuple(Failure(Stage(f["stage"]), f["code"], tidy(f["reason"])) for f in result["failures"])
    return Outcome(
        case, sources, seconds, failures,
        source=result["source"] or "", programs=result["programs"], random=result["random"],
        kernels=result["kernels"],
    )  # fmt: skip


def verdict_of(answer: Answer) -> StockVerdict:
    """Inductor's verdict from a worker's answer; a crash or no answer is an error of Inductor's."""
    if answer.done is None:
        verdict = Verdict(0, answer.lost)
    elif "broken" in answer.done:
        verdict = Verdict(0, tidy("eager: " + answer.done["broken"]))
    else:
        verdict = Verdict(answer.done["graphs"], tidy(answer.done["error"]))
    return StockVerdict(answer.job.case, verdict)


def tidy(reason: str) -> str:
    """Removes details that vary between machines and runs, and shortens the text."""
    for folder in (sysconfig.get_path("purelib"), str(_ROOT)):
        reason = reason.replace(folder + "/", "")
    reason = re.sub(r"\b0x[0-9a-f]{6,}", "0x…", reason)
    return reason if len(reason) <= _REASON else reason[: _REASON - 1] + "…"


def source_hash() -> str:
    """Identifies the packages' source code, and that of its checks."""
    digest = hashlib.sha256()
    checking = [_ROOT / "tools" / "conformance" / name for name in _CHECKING]
    for path in (*sorted(_ROOT.glob("packages/*/src/**/*.py")), *checking):
        digest.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class Store:
    """Files of results: later lines replace earlier ones."""

    def __init__(self, outcomes: Path, stock: Iterable[Path]) -> None:
        """Outcomes are stored in the file `outcomes`.

        Verdicts are read from all files of `stock` and appended to the last.
        """
        self.outcomes_file = outcomes
        outcomes.parent.mkdir(parents=True, exist_ok=True)
        self.verdict_files = tuple(stock)
        self.outcomes = {o.case: o for o in map(_read_outcome, _lines(outcomes))}
        self.verdicts = {
            u.case: u.verdict for file in self.verdict_files for u in map(_read_verdict, _lines(file))
        }

    def add(self, result: Outcome | StockVerdict) -> None:
        """Keeps a result, on disk too."""
        if isinstance(result, Outcome):
            self.outcomes[result.case] = result
            _append(self.outcomes_file, asdict(result))
        else:
            self.verdicts[result.case] = result.verdict
            _append(self.verdict_files[-1], asdict(result))

    def write_verdicts(self, cases: Iterable[CaseId], path: Path) -> None:
        """Writes the verdicts of these cases, in their order."""
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            "".join(_line(asdict(StockVerdict(case, self.verdicts[case]))) for case in cases),
            encoding="utf-8",
        )


def _append(path: Path, entry: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(_line(entry))


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False) + "\n"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:  # cut off when a run was killed
            continue


def _read_outcome(entry: dict[str, Any]) -> Outcome:
    failures = tuple(Failure(Stage(f["stage"]), f["code"], f["reason"]) for f in entry["failures"])
    return Outcome(**{**entry, "case": CaseId(**entry["case"]), "failures": failures})


def _read_verdict(entry: dict[str, Any]) -> StockVerdict:
    return StockVerdict(CaseId(**entry["case"]), Verdict(**entry["verdict"]))
