"""Damage inside entries of a file that is sealed again: `load` raises only coded errors."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from packages.wrapper_ir.tests.storage.made_artifact import cut, flip, grow, make_artifact, repack, swap

import wrapper_ir
from wrapper_ir.artifact.file import LoadOptions
from wrapper_ir.errors import ArtifactError

ENTRIES = ["program.json", "signature.json", "tuning.json", "metadata.json", "constants.safetensors"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_damaged_entries_are_refused_or_read(tmp_path: Path, name: str) -> None:
    """Loads a damaged file: the result is a printable program with matching hashes of constants, or an
    error."""
    path, bad, rng = tmp_path / "m.wir", tmp_path / "bad.wir", random.Random(name)
    wrapper_ir.save(make_artifact(), path)
    refused = 0
    for _ in range(150):
        damage = rng.choice([flip, cut, grow, swap])

        def change(files: dict[str, bytes]) -> None:
            files[name] = damage(files[name], rng)  # noqa: B023  # called at once

        repack(path, bad, change)
        try:
            read = wrapper_ir.load(bad, LoadOptions(check_constants=rng.random() < 0.5))
        except ArtifactError:
            refused += 1
        else:
            assert wrapper_ir.print_program(read.program)
    assert refused > 50
