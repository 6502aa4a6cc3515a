"""The prebuilt runtime of wheels is used if a compiler can link it; otherwise it is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpp_wrapper import runtime_build
from cpp_wrapper.runtime_build import FLAGS, PREBUILT, compile_runtime, compiler_version, find_prebuilt

MADE = "Target: x86_64-linux-gnu | gcc version 12.2.0 (Debian 12.2.0-14)"


@pytest.fixture
def prebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "runtime.o"
    path.touch()
    path.with_suffix(".txt").write_text(MADE)
    monkeypatch.setattr(runtime_build, "PREBUILT", {"torch": path})
    return path


@pytest.mark.parametrize(
    "version", [MADE, MADE.replace("12.2.0", "12.1.0"), MADE.replace("12.2.0", "15.1.0")]
)
def test_the_same_compiler_and_newer_ones_take_it(prebuilt: Path, version: str) -> None:
    assert find_prebuilt(version, FLAGS) == prebuilt


@pytest.mark.parametrize(
    ("version", "flags"),
    [
        (MADE.replace("12.2.0", "11.4.0"), FLAGS),
        (MADE.replace("x86_64", "aarch64"), FLAGS),
        ("clang version 18.1.0 | Target: x86_64-linux-gnu", FLAGS),
        (MADE, (*FLAGS, "-g1")),
    ],
)
def test_others_compile_it(prebuilt: Path, version: str, flags: tuple[str, ...]) -> None:
    assert find_prebuilt(version, flags) is None


def test_checkouts_have_none() -> None:
    assert find_prebuilt(MADE, FLAGS) is None


@pytest.mark.slow
@pytest.mark.parametrize("runtime", PREBUILT)
def test_a_compiled_runtime_is_taken(runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = compile_runtime("g++", runtime, tmp_path)
    monkeypatch.setattr(runtime_build, "PREBUILT", {runtime: output})
    assert find_prebuilt(compiler_version("g++"), FLAGS, runtime) == output
    assert output.stat().st_size > 10_000
