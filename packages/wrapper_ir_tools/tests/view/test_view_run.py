"""Reads the data of a run for a page: times and saved values."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from wrapper_ir.errors import ReportError
from wrapper_ir_tools.view import OpTime, read_profile, read_saved_values

# Any in this file: JSON.


def _profile(folder: Path, *ops: dict[str, Any]) -> Path:
    path = folder / "times.json"
    path.write_text(json.dumps({"version": 1, "calls": 3, "ops": ops}))
    return path


def test_times_of_host_and_device(tmp_path: Path) -> None:
    plain = {"function": "main", "op_index": 2, "op": "launch", "name": "k", "device": "cpu", "count": 1, "seconds": 2e-6, "device_seconds": None, "bytes": 512, "share": 0.25}  # fmt: skip
    other = plain | {"function": "f", "op_index": 0, "device": "cuda:0", "count": 3, "device_seconds": 1e-6, "bytes": None, "share": None}  # fmt: skip
    assert read_profile(_profile(tmp_path, plain, other)) == (
        OpTime(function="main", op=2, seconds=2e-6, facts=(("bytes moved", "512"), ("share of the bandwidth limit", "25.0 %"))),
        OpTime(function="f", op=0, seconds=1e-6, facts=(("measured on", "cuda:0"), ("time of the host", "2.00 us"), ("runs in one call", "3"))),
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"ops": 3}', '{"ops": [{"function": "main"}]}', '{"ops": [{"function": "main", "op_index": "x", "seconds": 1}]}'])  # fmt: skip
def test_invalid_profiles(text: str, tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    path.write_text(text)
    with pytest.raises(ReportError, match=r"times.json") as caught:
        read_profile(path)
    assert caught.value.code == "WIR273"


def _save(
    path: Path, dtype: str, sizes: list[int], data: bytes, message: dict[str, str] | None = None
) -> None:
    header: dict[str, Any] = {path.stem: {"dtype": dtype, "shape": sizes, "data_offsets": [0, len(data)]}}
    if message is not None:
        header["__metadata__"] = message
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_saved_values(tmp_path: Path) -> None:
    message = {"phase": "after", "kernel": "k", "arg": "a b", "dtype": "f32"}
    _save(
        tmp_path / "after_launch_k_a.safetensors",
        "F32",
        [2, 2],
        struct.pack("<4f", 1, 2, 3, float("nan")),
        message,
    )
    _save(tmp_path / "b.safetensors", "F32", [100], struct.pack("<100f", *range(100)))
    _save(
        tmp_path / "c.safetensors",
        "U8",
        [2, 8],
        struct.pack("<4f", 1, 2, 3, 4),
        message | {"dtype": "c64", "arg": "c"},
    )
    # different names: the shorter first
    second, third, first = read_saved_values(tmp_path)
    assert (first.kernel, first.value, first.phase, first.op) == ("k", '"a b"', "after", -1)
    assert first.summary == "f32[2, 2] [[1, 2], [3, nan]]"
    assert (second.kernel, second.value) == ("", "b")
    assert second.summary.startswith("f32[100]: mean 49.5, min 0, max 99, ")
    assert third.summary.startswith("c64[2] ")


def test_values_of_one_name_in_their_order(tmp_path: Path) -> None:
    for name in ("k_a_10", "k_a_2", "k_a", "k_a_1"):
        _save(tmp_path / f"{name}.safetensors", "F32", [1], struct.pack("<f", 1), {"kernel": "k", "arg": "a"})
    files = [v.file.removesuffix(".safetensors") for v in read_saved_values(tmp_path)]
    assert files == ["k_a", "k_a_1", "k_a_2", "k_a_10"]


@pytest.mark.parametrize("data", [b"", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0[]", b"\x40\0\0\0\0\0\0\0" + b'{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}  '])  # fmt: skip
def test_invalid_values(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(data)
    with pytest.raises(ReportError, match=r"a.safetensors") as caught:
        read_saved_values(tmp_path)
    assert caught.value.code == "WIR273"


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no folder"):
        read_saved_values(tmp_path / "gone")
