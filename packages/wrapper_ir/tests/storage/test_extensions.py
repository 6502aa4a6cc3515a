"""Texts of other packages in a `.wir` file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.artifact.file import load, save
from wrapper_ir.errors import ArtifactError
from wrapper_ir.text import parse_program


def with_extensions(**extensions: str) -> Artifact:
    program = parse_program("wir 0.5\ntarget cpu\n\nfunc @main(%x: f32[4]) {\n  return %x\n}\n")
    return dataclasses.replace(bare_artifact(program), extensions=extensions)


def test_they_are_carried(tmp_path: Path) -> None:
    save(with_extensions(**{"notes.txt": "ü", "graph.json": "{}"}), tmp_path / "m.wir")
    assert load(tmp_path / "m.wir").extensions == {"notes.txt": "ü", "graph.json": "{}"}


@pytest.mark.parametrize("name", ["../notes.txt", "", ".hidden", "a/b", "ü"])
def test_their_names_are_plain(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as caught:
        save(with_extensions(**{name: ""}), tmp_path / "m.wir")
    assert caught.value.code == "WIR704"
    assert not (tmp_path / "m.wir").exists()
