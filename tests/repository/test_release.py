"""What the release tool reads: packages, file names, and the README's first example."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools.release.install import first_example
from tools.release.packages import list_packages

ROOT = Path(__file__).parents[2]


def test_every_package_is_released() -> None:
    packages = {p.name: p for p in list_packages(ROOT)}
    assert {p.folder.name for p in packages.values()} == {p.name for p in (ROOT / "packages").iterdir()}
    core = packages["wrapper-ir"]
    assert core.tag == f"wrapper-ir-v{core.version}"
    assert core.wheel == f"wrapper_ir-{core.version}-py3-none-any.whl"
    assert core.sdist == f"wrapper_ir-{core.version}.tar.gz"


def test_the_extra_for_models_brings_every_other_package() -> None:
    core = tomllib.loads((ROOT / "packages" / "wrapper_ir" / "pyproject.toml").read_text(encoding="utf-8"))
    brought = {need.partition(">")[0] for need in core["project"]["optional-dependencies"]["inductor"]}
    assert brought == {p.name for p in list_packages(ROOT)} - {"wrapper-ir"} | {"wrapper-ir[cli]"}
    assert core["project"]["dependencies"] == []


def test_the_first_example_is_a_script() -> None:
    text = first_example(ROOT)
    compile(text, "example.py", "exec")
    assert "py_wrapper.compile(art)" in text


def test_a_readme_without_an_example_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Nothing\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no Python block"):
        first_example(tmp_path)
