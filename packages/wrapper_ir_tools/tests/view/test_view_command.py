"""The command `wir view`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result
from packages.wrapper_ir_tools.tests.view.view_samples import TEXT, sample_program, write_source

from wrapper_ir import save
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_tools.cli.main import main


def _wir(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    path = tmp_path / "m.wir"
    save(bare_artifact(sample_program()), path)
    return path


def _data(page: Path) -> Any:  # Any: JSON
    text = page.read_text()
    begin = text.index('type="application/json">') + len('type="application/json">')
    return json.loads(text[begin : text.index("</script>", begin)])


def test_a_page_with_the_source_beside_the_artifact(artifact: Path, tmp_path: Path) -> None:
    write_source(tmp_path)
    result = _wir("view", artifact, "-o", tmp_path / "m.html")
    assert (result.exit_code, result.output) == (0, f"{tmp_path / 'm.html'}\n")
    (program,) = _data(tmp_path / "m.html")["programs"]
    assert program["title"] == "m.wir"
    assert "y = x + 1" in json.dumps(program["sources"])
    assert _wir("view", artifact, "--no-source", "-o", tmp_path / "m.html").exit_code == 0
    assert "y = x + 1" not in (tmp_path / "m.html").read_text()


def test_source_below_a_folder(artifact: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    write_source(folder)
    assert _wir("view", artifact, "--source", folder, "-o", tmp_path / "m.html").exit_code == 0
    assert "y = x + 1" in (tmp_path / "m.html").read_text()


def test_two_programs(artifact: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text(TEXT.replace("%a", "%z"))
    assert _wir("view", artifact, other, "-o", tmp_path / "d.html").exit_code == 0
    data = _data(tmp_path / "d.html")
    assert [p["title"] for p in data["programs"]] == ["m.wir", "other.txt"]
    functions = data["diff"]["functions"]
    assert [f["name"] for f in functions] == ["main", "branch"]
    assert all(same for f in functions for _, _, same in f["pairs"])
    assert _wir("view", artifact, other, "--names", "-o", tmp_path / "d.html").exit_code == 0
    functions = _data(tmp_path / "d.html")["diff"]["functions"]
    assert not all(same for _, _, same in functions[0]["pairs"])


def test_a_run(artifact: Path, tmp_path: Path) -> None:
    times = tmp_path / "times.json"
    times.write_text('{"ops": [{"function": "main", "op_index": 2, "seconds": 0.5}]}')
    assert _wir("view", artifact, "--profile", times, "-o", tmp_path / "m.html").exit_code == 0
    assert _data(tmp_path / "m.html")["programs"][0]["times"] == [
        {"function": "main", "op": 2, "seconds": 0.5}
    ]
    times.write_text("no JSON")
    result = _wir("view", artifact, "--profile", times, "-o", tmp_path / "m.html")
    assert result.exit_code == 2
    assert "WIR273" in result.stderr
    damaged = tmp_path / "values"
    damaged.mkdir()
    (damaged / "a.safetensors").write_bytes(b"x")
    result = _wir("view", artifact, "--values", damaged, "-o", tmp_path / "m.html")
    assert result.exit_code == 2
    assert "WIR273" in result.stderr


def test_a_browser_shows_it(artifact: Path) -> None:
    with patch("webbrowser.open", return_value=True) as opened:
        result = _wir("view", artifact)
    assert result.exit_code == 0
    path = Path(result.output.strip())
    opened.assert_called_once_with(path.as_uri())
    assert path.read_text().startswith("<!doctype html>")
    with patch("webbrowser.open", return_value=False):
        result = _wir("view", artifact)
    assert result.exit_code == 0
    assert "no browser was found" in result.stderr


def test_invalid_arguments(artifact: Path, tmp_path: Path) -> None:
    assert _wir("view", tmp_path / "gone.wir").exit_code == 2
    result = _wir("view", artifact, "--hint", "m=3", "-o", tmp_path / "m.html")
    assert result.exit_code == 2
    assert "the program has no symbol 'm'" in result.output
