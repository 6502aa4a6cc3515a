"""Source lines: those that an artifact has, and those in files of this machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from wrapper_ir import parse_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.artifact.sources import (
    SOURCES,
    line_at,
    read_source,
    source_folders,
    source_texts,
    split_place,
)


def test_places() -> None:
    assert split_place("a/b.py:12") == ("a/b.py", 12)
    assert split_place("C:\\m.py:3") == ("C:\\m.py", 3)
    assert split_place("nowhere") == ("nowhere", 0)


def test_a_line(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("def f(x):\n    return -x\n\n")
    folders = (tmp_path,)
    assert line_at("net.py:2", folders) == "return -x"
    assert line_at(f"{tmp_path}/net.py:1", ()) == "def f(x):"
    assert [line_at(place, folders) for place in ("net.py:3", "net.py:9", "net.py", "net.py:0")] == [None] * 4


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads the first match, from the working folder before Python's path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    for folder, text in ((tmp_path, "outer"), (tmp_path / "a", "inner")):
        (folder / "net.py").write_text(text)
    assert line_at("net.py:1", source_folders((tmp_path / "a",))) == "inner"
    assert line_at("net.py:1", source_folders()) == "outer"


def test_invalid_files(tmp_path: Path) -> None:
    """Reads only Python files, although a program can name any file."""
    (tmp_path / "secret").write_text("key")
    (tmp_path / "odd.py").write_bytes(b"\xff\xfe")
    (tmp_path / "big.py").write_bytes(b"#" * ((4 << 20) + 1))
    sources = {
        n: read_source(n, (tmp_path,)) for n in ("secret", "gone.py", "no\0name.py", "odd.py", "big.py")
    }
    assert all(not text.lines for text in sources.values())
    assert sources["secret"].missing == "not a Python file"
    assert sources["gone.py"].missing == sources["no\0name.py"].missing == "not found in any source folder"
    assert sources["odd.py"].missing.startswith("cannot be read: ")
    assert sources["big.py"].missing == "larger than 4 MiB"


@pytest.mark.parametrize(
    ("stored", "texts"),
    [(json.dumps({"m.py:1": "x = 1", "m.py:2": 3}), {"m.py:1": "x = 1"}), ("[1]", {}), ("{", {}), (None, {})],
)
def test_what_an_artifact_has(stored: str | None, texts: dict[str, str]) -> None:
    bare = bare_artifact(parse_program("wir 0.5\ntarget cpu\nfunc @main() {\n  return\n}\n"))
    artifact = replace(bare, extensions={} if stored is None else {SOURCES: stored})
    assert source_texts(artifact) == texts
