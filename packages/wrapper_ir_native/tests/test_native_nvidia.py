"""Libraries of NVIDIA in folders of packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from wrapper_ir_native import nvidia


def test_the_latest_version_comes_first(tmp_path: Path) -> None:
    for folder, name in (
        ("cublas", "libcublasLt.so.12"),
        ("cu13", "libcublasLt.so.13"),
        ("cudnn", "libcudnn.so.9"),
    ):
        (tmp_path / folder / "lib").mkdir(parents=True)
        (tmp_path / folder / "lib" / name).touch()
    folders = [tmp_path / "absent", tmp_path]
    found = nvidia.find_installed(nvidia.CUBLAS, folders)
    assert [path.name for path in found] == ["libcublasLt.so.13", "libcublasLt.so.12"]
    assert nvidia.find_installed(nvidia.CUDNN, folders) == [tmp_path / "cudnn" / "lib" / "libcudnn.so.9"]


@pytest.mark.parametrize(
    ("device", "schema", "library"),
    [
        ("cpu", "aten::mm.out(Tensor self) -> Tensor", ""),
        ("cuda:0", "aten::add.out(Tensor self) -> Tensor", ""),
        ("cuda:0", "aten::mm.out(Tensor self) -> Tensor", "libcublasLt.so.13"),
        ("cuda:0", "aten::convolution(Tensor input) -> Tensor", "libcudnn.so.9"),
    ],
)
def test_programs_load_what_their_operators_need(
    device: str, schema: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr("ctypes.CDLL", loaded.append)
    nvidia.provide_libraries({"device": device, "operators": [{"schema": schema}]})
    assert loaded == ([library] if library else [])
