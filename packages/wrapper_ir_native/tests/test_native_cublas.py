"""cuBLASLt in folders of packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from wrapper_ir_native import cublas


def test_the_latest_version_comes_first(tmp_path: Path) -> None:
    for folder, name in (
        ("cublas", "libcublasLt.so.12"),
        ("cu13", "libcublasLt.so.13"),
        ("cudnn", "libcudnn.so.9"),
    ):
        (tmp_path / folder / "lib").mkdir(parents=True)
        (tmp_path / folder / "lib" / name).touch()
    found = cublas.installed_cublas([tmp_path / "absent", tmp_path])
    assert [path.name for path in found] == ["libcublasLt.so.13", "libcublasLt.so.12"]


@pytest.mark.parametrize(
    ("device", "schema", "is_loaded"),
    [
        ("cpu", "aten::mm.out(Tensor self) -> Tensor", False),
        ("cuda:0", "aten::add.out(Tensor self) -> Tensor", False),
        ("cuda:0", "aten::mm.out(Tensor self) -> Tensor", True),
    ],
)
def test_programs_that_need_none_load_none(
    device: str, schema: str, is_loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr("ctypes.CDLL", loaded.append)
    cublas.provide_cublas({"device": device, "operators": [{"schema": schema}]})
    assert bool(loaded) == is_loaded
