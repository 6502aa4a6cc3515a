"""Shared parts of the benchmarks: alternating rounds, ratios, fresh processes, tables and pages."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tools.bench import pages
from tools.bench.pages import command_line, page, publish, section_of, table
from tools.bench.processes import in_fresh_process
from tools.bench.timing import Ratio, alternate, best_seconds, compare, median_ratio, timed


def test_rounds_alternate() -> None:
    """Each side runs once per round, and each is first equally often."""
    order: list[str] = []

    def side(name: str) -> int:
        order.append(name)
        return len(order)

    found = alternate({name: partial(side, name) for name in "abc"}, 3)
    assert "".join(order) == "abcbcacab"
    assert found == {"a": [1, 6, 8], "b": [2, 4, 9], "c": [3, 5, 7]}


def test_a_disturbed_round_does_not_move_the_ratio() -> None:
    assert median_ratio([1.0, 1.0, 90.0], [2.0, 2.0, 2.0]) == 0.5


def test_best_seconds_and_timed() -> None:
    clock = iter([0.0, 3.0, 10.0, 11.0, 20.0, 22.0])
    assert best_seconds(lambda: None, 3, partial(next, clock)) == 1.0
    assert timed(lambda: "result", partial(next, iter([1.0, 1.5]))) == (0.5, "result")


def test_a_call_that_takes_twice_as_long() -> None:
    now = [0.0]

    def take(seconds: float) -> None:
        now[0] += seconds

    settled: list[int] = []
    found = compare(
        partial(take, 2e-3),
        partial(take, 1e-3),
        rounds=4,
        seconds=0.0105,
        settle=lambda: settled.append(1),
        clock=lambda: now[0],
    )
    assert found.ratio == pytest.approx(2.0)
    assert found.ours == pytest.approx(2e-3)
    assert found.theirs == pytest.approx(1e-3)
    assert len(settled) == 8
    assert Ratio(2e-6, 1e-6, 2.0).cells() == ("2.0", "1.0", "2.00")


def test_a_fresh_process_has_caches_of_its_own(tmp_path: Path) -> None:
    code = (
        "import json, os; print('noise'); print(json.dumps({'n': len(os.environ['WRAPPER_IR_CACHE_DIR'])}))"
    )
    assert in_fresh_process(("-c", code), str(tmp_path)) == {"n": len(f"{tmp_path}/wir")}
    with pytest.raises(RuntimeError, match="no such model"):
        in_fresh_process(("-c", "raise SystemExit('no such model')"), str(tmp_path))


def test_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = page("Speed", "make bench", ("Prediction", "Fast.\n"), ("Misses", ""), ("Measured", "1.0"))
    assert text == (
        "# Speed\n\nWritten by `make bench`; not edited by hand.\n\n## Prediction\n\nFast.\n\n## Measured\n\n1.0\n"
    )
    monkeypatch.setattr(pages, "_FOLDER", tmp_path)
    parse = command_line("What it measures.").parse_args
    publish("speed", text, parse([]))
    assert not [*tmp_path.iterdir()]
    publish("speed", text, parse(["--write"]))
    publish("speed", text, parse(["--write", "--page", "speed-2.15"]))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["speed-2.15.md", "speed.md"]
    assert (tmp_path / "speed.md").read_text("utf-8") == text
    assert [section_of("speed", heading) for heading in ("Measured", "Misses")] == ["1.0", ""]
    assert section_of("no page", "Measured") == ""
    assert capsys.readouterr().out.startswith(text)


def test_a_table_keeps_numbers_as_they_are_written() -> None:
    assert "1.00" in table(("side", "ratio"), [("a", "1.00")])


def test_the_command_line() -> None:
    assert not command_line("What it measures.").parse_args([]).write
    assert command_line("What it measures.").parse_args(["--write"]).write


_PARENT = """
import sys, time
from pathlib import Path
from tools.bench.processes import Processes, exit_on_termination
exit_on_termination()
with Processes() as processes:
    child = [sys.executable, "-c", "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"]
    print(processes.start(child, Path(sys.argv[1]), {}).pid, flush=True)
    time.sleep(60)
"""


def test_processes_end_with_the_one_that_is_terminated(tmp_path: Path) -> None:
    """And so do those that they have started."""
    log = tmp_path / "log"
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, str(log)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    while not log.read_text():
        assert parent.poll() is None
    parent.terminate()
    assert parent.wait(10) == 128 + signal.SIGTERM
    deadline = time.monotonic() + 10
    while any(map(_is_running, (child, int(log.read_text())))):
        assert time.monotonic() < deadline


def _is_running(id: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{id}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
