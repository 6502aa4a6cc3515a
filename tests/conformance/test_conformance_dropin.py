"""The drop-in list: how two runs are compared, a short sample through stock and ours, and the whole as a long
proof.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tools.conformance.dropin import run
from tools.conformance.dropin.observe import Seen, difference, outcomes
from tools.conformance.dropin.run import FEATURES, Row, render, run_features
from tools.conformance.dropin.table import Program, rand
from tools.conformance.dropin.worker import programs_of, verdict

SAMPLE = [
    ("views", "itself_twice"),
    ("views", "two_views_of_a_view"),
    ("views", "as_strided_of_part"),
    ("views", "unbind"),
    ("mutation", "same_tensor_twice"),
    ("errors", "matmul_shapes"),
]
"""Programs that need few kernels."""


def test_the_list_is_long() -> None:
    assert sum(len(programs_of(feature)) for feature in FEATURES) >= 300


@pytest.mark.parametrize(("feature", "name"), SAMPLE)
def test_a_sample(feature: str, name: str) -> None:
    program = programs_of(feature)[name]
    kind, detail = verdict(program, outcomes(program, "inductor", dynamic=False), dynamic=False)
    assert (kind in ("equal", "error", "as stock"), detail) == (True, "")


def test_everything_that_a_call_shows_is_compared() -> None:
    (seen,) = outcomes(Program(lambda x: (x, x.t()), lambda n: (rand(n, 2),)), "eager", dynamic=False)
    assert difference([seen], [seen]) == ""
    other = torch.zeros(4, 2)
    assert "Tensor-likes are not close" in difference(
        [seen], [replace(seen, tree=((other, other.t()), *seen.tree[1:]))]
    )
    assert "objects and layouts" in difference([seen], [replace(seen, same=())])
    failed = Seen(error="ValueError")
    assert "no error" not in difference([seen], [failed])
    assert "no error, stock has ValueError" in difference([failed], [seen])
    assert difference([replace(failed, compiles=False)], [seen]) == ""


def test_the_page_counts_and_names_what_differs() -> None:
    rows = [Row("views", "a", False, "equal"), Row("views", "a", True, "wrong", "call 0: x | y")]
    page = render(rows)
    assert "1 small programs" in page
    assert "| views | 2 | 1 | 0 | 0 | 0 | 1 |" in page
    assert "| views.a | dynamic | call 0: x \\| y |" in page


ENDING = """
import json, os, signal, sys
skipped = json.loads(sys.argv[3])
for name in "abc":
    if [name, False] in skipped:
        continue
    print(json.dumps({"start": name, "dynamic": False}), flush=True)
    if name == "a":
        os.kill(os.getpid(), signal.SIGFPE)
    print(json.dumps({"stock": 2}), flush=True)
    if name == "b":
        os.kill(os.getpid(), signal.SIGSEGV)
    print(json.dumps({"kind": "equal", "detail": ""}), flush=True)
"""


def test_a_program_that_ends_its_process_is_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run, "WORKER", [sys.executable, "-c", ENDING])
    rows = run_features(["views"], "", 1, tmp_path)
    assert [(row.name, row.kind, row.detail) for row in rows] == [
        ("a", "as stock", "the process ended with -8"),
        ("b", "wrong", "the process ended with -11"),
        ("c", "equal", ""),
    ]


@pytest.mark.conformance
@pytest.mark.parametrize("feature", FEATURES)
def test_nothing_differs(feature: str, tmp_path: Path) -> None:
    assert [row for row in run_features([feature], "", 1, tmp_path) if row.wrong] == []
