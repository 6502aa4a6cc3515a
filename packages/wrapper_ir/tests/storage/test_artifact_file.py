"""The `.wir` file: artifacts are read back as written, and every damaged or unsafe file is refused with a
code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors
from packages.wrapper_ir.tests.storage.made_artifact import cut, flip, grow, make_artifact, repack, swap

import wrapper_ir.artifact.file.container as container_module
from wrapper_ir.artifact.file import LoadOptions, load, save
from wrapper_ir.artifact.file.container import Entry, write_container
from wrapper_ir.errors import ArtifactError


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "m.wir"
    save(make_artifact(), path)
    return path


def test_read_back(saved: Path) -> None:
    original, read = make_artifact(), load(saved)
    assert read.program == original.program
    assert read.signature == original.signature
    assert dict(read.tuning) == dict(original.tuning)
    assert dict(read.metadata) == dict(original.metadata)
    for name, data in original.constants.items():
        assert read.constants[name].dtype is data.dtype
        assert bytes(read.constants[name].buffer) == bytes(data.buffer)


def test_same_artifact_gives_same_bytes(saved: Path, tmp_path: Path) -> None:
    save(make_artifact(), tmp_path / "again.wir")
    assert saved.read_bytes() == (tmp_path / "again.wir").read_bytes()


def test_payloads_are_stored_and_aligned(saved: Path) -> None:
    data = saved.read_bytes()
    with zipfile.ZipFile(saved) as archive:
        assert archive.testzip() is None
        for info in archive.infolist():
            assert info.compress_type == zipfile.ZIP_STORED
            name_length, extra_length = struct.unpack_from("<HH", data, info.header_offset + 26)
            start = info.header_offset + 30 + name_length + extra_length
            assert start % container_module.ALIGNMENT == 0, info.filename


def test_constants_entry_is_safetensors(saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        tensors = dict(safetensors.deserialize(archive.read("constants.safetensors")))  # type: ignore[no-untyped-call]  # the library has no types
    original = make_artifact()
    assert tensors["weight"]["dtype"] == "F32"
    for name, data in original.constants.items():
        assert bytes(tensors[name]["data"]) == bytes(data.buffer)


def test_constants_are_mapped_not_copied(saved: Path) -> None:
    buffer = load(saved, LoadOptions(map_from=0)).constants["weight"].buffer
    assert buffer.readonly
    assert type(buffer.obj).__name__ == "mmap"


def test_truncated_anywhere(saved: Path, tmp_path: Path) -> None:
    data = saved.read_bytes()
    bad = tmp_path / "bad.wir"
    for length in range(0, len(data), 17):
        bad.write_bytes(data[:length])
        with pytest.raises(ArtifactError):
            load(bad)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [flip, cut, grow, swap])
def test_any_damage_is_refused(
    saved: Path, tmp_path: Path, damage: Callable[[bytes, random.Random], bytes]
) -> None:
    data, bad, rng = saved.read_bytes(), tmp_path / "bad.wir", random.Random(7)
    for _ in range(1250):
        changed = damage(data, rng)
        if changed == data:
            continue
        bad.write_bytes(changed)
        with pytest.raises(ArtifactError) as raised:
            load(bad)
        assert raised.value.code.startswith("WIR7")


def set_entry(name: str, data: bytes) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        files[name] = data

    return change


def drop_entry(name: str) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        del files[name]

    return change


@pytest.mark.parametrize(
    "name", ["program.json", "signature.json", "kernels/0000_k.cpp", "constants.safetensors"]
)
def test_missing_entry(saved: Path, tmp_path: Path, name: str) -> None:
    repack(saved, tmp_path / "bad.wir", drop_entry(name))
    with pytest.raises(ArtifactError) as raised:
        load(tmp_path / "bad.wir")
    assert raised.value.code == "WIR706"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("program.json", b"{"),
        ("program.json", b"[" * 100_000),
        ("program.json", b"\xff"),
        ("signature.json", b"{}"),
        ("tuning.json", b'{"a": 1}'),
        ("metadata.json", b"[]"),
    ],
)
def test_malformed_entry(saved: Path, tmp_path: Path, name: str, data: bytes) -> None:
    repack(saved, tmp_path / "bad.wir", set_entry(name, data))
    with pytest.raises(ArtifactError) as raised:
        load(tmp_path / "bad.wir")
    assert raised.value.code == "WIR703"


def safetensors_of(header: object, payload: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + payload


@pytest.mark.parametrize(
    "data",
    [
        b"",
        (1 << 62).to_bytes(8, "little"),
        safetensors_of([]),
        safetensors_of({"weight": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}}),
        safetensors_of({"weight": {"dtype": "F32", "shape": [8], "data_offsets": [0, 16]}}, b"x" * 16),
        safetensors_of({"weight": {"dtype": "F32", "shape": [8], "data_offsets": [-32, 0]}}, b"x" * 32),
        safetensors_of({"weight": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}}, b"x" * 32),
    ],
)
def test_malformed_constants(saved: Path, tmp_path: Path, data: bytes) -> None:
    repack(saved, tmp_path / "bad.wir", set_entry("constants.safetensors", data))
    with pytest.raises(ArtifactError) as raised:
        load(tmp_path / "bad.wir")
    assert raised.value.code == "WIR707"


def test_constant_bytes_are_held_against_the_program(saved: Path, tmp_path: Path) -> None:
    def change(files: dict[str, bytes]) -> None:
        data = files["constants.safetensors"]
        files["constants.safetensors"] = data[:-1] + bytes([data[-1] ^ 1])

    repack(saved, tmp_path / "bad.wir", change)
    with pytest.raises(ArtifactError) as raised:
        load(tmp_path / "bad.wir")
    assert raised.value.code == "WIR708"
    load(tmp_path / "bad.wir", LoadOptions(check_constants=False))


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/passwd", "a/../../b", "a\\b", "C:evil", "a//b", "./a", "a\nb"]
)
def test_unsafe_names_are_neither_written_nor_read(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [Entry(name, (b"x",), 1)]
    with pytest.raises(ArtifactError) as raised:
        write_container(tmp_path / "a.wir", entries, {})
    assert raised.value.code == "WIR704"
    assert not list(tmp_path.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(container_module, "_check_name", lambda name: None)
        write_container(tmp_path / "a.wir", entries, {})
    with pytest.raises(ArtifactError) as raised:
        load(tmp_path / "a.wir")
    assert raised.value.code == "WIR704"


def test_links_folders_and_compression_are_refused(saved: Path) -> None:
    def info_of(name: str, mode: int, compression: int = zipfile.ZIP_STORED) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        info.compress_type = compression
        return info

    for info, code in [
        (info_of("link", 0o120777), "WIR704"),
        (info_of("folder/", 0o040755), "WIR704"),
        (info_of("packed", 0o100644, zipfile.ZIP_DEFLATED), "WIR703"),
    ]:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(info, b"target " * 10)
        data = memoryview(buffer.getvalue())
        with zipfile.ZipFile(buffer) as archive, pytest.raises(ArtifactError) as raised:
            container_module._read_entries(archive, data)
        assert raised.value.code == code


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_entries(tmp_path: Path) -> None:
    entries = [Entry("a", (b"x",), 1), Entry("a", (b"y",), 1)]
    write_container(tmp_path / "a.wir", entries, {})
    with pytest.raises(ArtifactError) as raised:
        load(tmp_path / "a.wir")
    assert raised.value.code == "WIR705"


def test_other_versions_are_refused(tmp_path: Path) -> None:
    for version in ({"version": "0.9"}, {"format_version": 1, "schema_version": "0.1"}, {}):
        write_container(tmp_path / "a.wir", [], {"format": "wir-artifact", **version})
        with pytest.raises(ArtifactError, match="make it again") as raised:
            load(tmp_path / "a.wir")
        assert raised.value.code == "WIR709"
        assert f"version {version.get('version', version.get('schema_version'))}" in raised.value.message
    write_container(tmp_path / "a.wir", [], {"format": "something"})
    with pytest.raises(ArtifactError, match="not a Wrapper IR artifact"):
        load(tmp_path / "a.wir")


def test_missing_file_and_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as raised:
        load(tmp_path / "absent.wir")
    assert raised.value.code == "WIR702"
    with pytest.raises(ArtifactError) as raised:
        save(make_artifact(), tmp_path / "absent" / "m.wir")
    assert raised.value.code == "WIR701"


def test_failed_save_leaves_the_old_file(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def fail(path: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(container_module, "_seal", fail)
    with pytest.raises(ArtifactError, match="No space left"):
        save(make_artifact(1), saved)
    assert saved.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.wir"]


WRITER = """
import sys
sys.path.insert(0, {folder!r})
from test_artifact_file import make_artifact
from wrapper_ir.artifact.file import save
print("ready", flush=True)
while True:
    save(make_artifact(), {path!r})
"""


@pytest.mark.slow
def test_killed_writer_leaves_a_whole_file(saved: Path) -> None:
    script = WRITER.format(folder=str(Path(__file__).parent), path=str(saved))
    rng = random.Random(3)
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0.01, 0.15))
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert load(saved).program == make_artifact().program


def test_no_pickle_is_reachable(saved: Path) -> None:
    script = (
        "import sys\n"
        "for name in ('pickle', '_pickle', 'cPickle', 'marshal_', 'dill', 'cloudpickle', 'torch', 'numpy'):\n"
        "    sys.modules[name] = None\n"
        "from wrapper_ir.artifact.file import load\n"
        f"print(len(load({str(saved)!r}).program.functions))\n"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stdout == "1\n"


def test_pickle_is_imported_nowhere() -> None:
    root = Path(container_module.__file__).parents[1]
    for path in root.rglob("*.py"):
        with contextlib.suppress(StopIteration):
            line = next(
                x
                for x in path.read_text().splitlines()
                if x.split("#")[0].strip().startswith(("import pickle", "from pickle"))
            )
            pytest.fail(f"{path}: {line}")
