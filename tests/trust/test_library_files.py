"""Files of libraries that are damaged, or written, truncated, replaced while a loaded program is in use.

A program computes with the constants that it was built with, or raises an error with a code.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._C._aoti import AOTIModelPackageLoader

import cpp_wrapper
from cpp_wrapper import CacheError
from cpp_wrapper.library.image import Image
from cpp_wrapper.library.package import find_image
from cpp_wrapper.library.write import constant_checksums
from cpp_wrapper.sources.constants import Blob
from cpp_wrapper.sources.version import METADATA_VERSION
from tests.cpp.cpp_case import FAST, artifact_of_text
from wrapper_ir.errors import ArtifactError

TEXT = """
const %c : f32[{n}]

extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"

func @main(%x: f32[{n}]) {{
  %y = call aten::add.Tensor(%x, %c) : f32[{n}]
  return %y
}}
"""
SMALL, LARGE = 1 << 12, (5 << 18) + 100
"""Numbers in the constant: copied, mapped."""
VALUE = 3.0
NATIVE = "-native.so"
"""The end of the name of a native library."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, str], Path]:
    """Libraries, packages and native libraries by the size of their constant and by their suffix."""
    folder = tmp_path_factory.mktemp("libraries")
    found = {}
    for count in (SMALL, LARGE):
        artifact = artifact_of_text(TEXT.format(n=count), {"c": torch.full((count,), VALUE)})
        for suffix in (".so", ".pt2"):
            found[count, suffix] = cpp_wrapper.build(artifact, folder / f"{count}{suffix}", FAST)
        path = folder / f"{count}{NATIVE}"
        found[count, NATIVE] = cpp_wrapper.build(artifact, path, replace(FAST, runtime="native"))
    return found


@pytest.fixture(params=[".so", ".pt2", NATIVE])
def suffix(request: pytest.FixtureRequest) -> str:
    suffix: str = request.param
    return suffix


def copied(source: Path, folder: Path) -> Path:
    """A file of one's own."""
    return Path(shutil.copy(source, folder / f"m{source.suffix}"))


def constants_begin(path: Path) -> int:
    """Returns the begin of the constants in a file."""
    image = find_image(path)
    return image.begin + image.code_nbytes


def write_at(path: Path, at: int, data: bytes) -> None:
    """Writes into a file, in place."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def overwrite(path: Path) -> None:
    """Zeros in place of constants."""
    write_at(path, constants_begin(path), bytes(4 * SMALL))


def overwrite_and_hide(path: Path) -> None:
    """The same, with the times of the old file."""
    before = path.stat()
    overwrite(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def truncate(path: Path) -> None:
    os.truncate(path, 100)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


CHANGES = [overwrite, overwrite_and_hide, truncate, grow]


@pytest.mark.parametrize("change", CHANGES)
def test_copied_constants_stay_as_they_were(
    built: dict[tuple[int, str], Path], suffix: str, change: Callable[[Path], None], tmp_path: Path
) -> None:
    path = copied(built[SMALL, suffix], tmp_path)
    program = cpp_wrapper.load(path)
    change(path)
    for _ in range(2):
        assert torch.equal(program(torch.ones(SMALL))[0], torch.full((SMALL,), 1 + VALUE))


@pytest.mark.parametrize("change", CHANGES)
def test_a_mapped_file_that_was_written_is_refused(
    built: dict[tuple[int, str], Path], suffix: str, change: Callable[[Path], None], tmp_path: Path
) -> None:
    path = copied(built[LARGE, suffix], tmp_path)
    program = cpp_wrapper.load(path)
    x = torch.ones(LARGE)
    assert torch.equal(program(x)[0], torch.full((LARGE,), 1 + VALUE))
    change(path)
    for _ in range(2):
        with pytest.raises(ArtifactError, match="WIR713"):
            program(x)
        with pytest.raises(ArtifactError, match="WIR713"):
            program.update_constants({"c": torch.zeros(LARGE)})


def test_a_mapped_file_may_be_replaced_renamed_and_deleted(
    built: dict[tuple[int, str], Path], suffix: str, tmp_path: Path
) -> None:
    path = copied(built[LARGE, suffix], tmp_path)
    program = cpp_wrapper.load(path)

    def replace() -> None:
        built_other = Path(shutil.copy(path, tmp_path / "other"))
        write_at(built_other, constants_begin(path), bytes(4 * SMALL))
        os.replace(built_other, path)

    def chmod() -> None:
        path.chmod(0o600)

    def link() -> None:
        os.link(path, tmp_path / "link")

    for change in (chmod, link, replace, path.unlink):
        change()
        assert torch.equal(program(torch.ones(LARGE))[0], torch.full((LARGE,), 1 + VALUE))


def places(image: Image) -> dict[str, int]:
    """A byte in each part of a library."""
    end = image.begin + image.nbytes
    return {
        "code": image.begin + image.code_nbytes // 2,
        "constants": image.begin + image.code_nbytes + 5,
        "metadata": end - 32 - 12 - 4 * (-(-4 * LARGE // (1 << 20))) - 40,
        "checksums": end - 32 - 10,
        "footer": end - 20,
    }


@pytest.mark.parametrize("part", ["code", "constants", "metadata", "checksums", "footer"])
def test_damage_is_found(built: dict[tuple[int, str], Path], suffix: str, part: str, tmp_path: Path) -> None:
    for count in (SMALL, LARGE):
        path = copied(built[count, suffix], tmp_path)
        at = places(find_image(path))[part]
        write_at(path, at, bytes([path.read_bytes()[at] ^ 4]))
        with pytest.raises(CacheError, match="CPP304"):
            cpp_wrapper.load(path)


def test_a_library_that_was_checked_before(
    built: dict[tuple[int, str], Path], suffix: str, tmp_path: Path
) -> None:
    """Its constants are not read when it is opened; what is written later is found all the same."""
    path = copied(built[LARGE, suffix], tmp_path)
    write_at(path, constants_begin(path) + 4 * 7, bytes(4))
    with pytest.raises(CacheError, match="CPP304"):
        cpp_wrapper.load(path)
    program = cpp_wrapper.load(path, check_constants=False)
    (result,) = program(torch.ones(LARGE))
    assert result[7] == 1
    assert result[8] == 1 + VALUE
    with pytest.raises(CacheError, match="CPP304"):
        cpp_wrapper.load(path)
    overwrite(path)
    with pytest.raises(ArtifactError, match="WIR713"):
        program(torch.ones(LARGE))
    for part in ("code", "metadata", "checksums", "footer"):
        path = copied(built[LARGE, suffix], tmp_path)
        at = places(find_image(path))[part]
        write_at(path, at, bytes([path.read_bytes()[at] ^ 4]))
        with pytest.raises(CacheError, match="CPP304"):
            cpp_wrapper.load(path, check_constants=False)


@pytest.mark.parametrize("cut", [1, 31, 32, 1000, 5000])
def test_files_that_were_cut_off_are_refused(
    built: dict[tuple[int, str], Path], suffix: str, cut: int, tmp_path: Path
) -> None:
    path = copied(built[SMALL, suffix], tmp_path)
    os.truncate(path, path.stat().st_size - cut)
    with pytest.raises(CacheError, match="CPP304"):
        cpp_wrapper.load(path)


def stock_call(path: Path) -> Callable[[Tensor], Tensor]:
    """A call by torch's own loader."""
    if path.suffix == ".pt2":
        package = AOTIModelPackageLoader(str(path), "model", False, 1, -1)
        return lambda x: package.boxed_run([x])[0]
    runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(path), 1)
    return lambda x: runner.run([x])[0]


@pytest.mark.parametrize("suffix", [".so", ".pt2"])
def test_torchs_loaders_find_damage_too(
    built: dict[tuple[int, str], Path], suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for count in (SMALL, LARGE):
        whole = Path(shutil.copy(built[count, suffix], tmp_path / f"whole{count}{suffix}"))
        assert torch.equal(stock_call(whole)(torch.ones(count)), torch.full((count,), 1 + VALUE))
        path = Path(shutil.copy(whole, tmp_path / f"{count}{suffix}"))
        write_at(path, constants_begin(path) + 5, b"\x01")
        with pytest.raises(RuntimeError):
            stock_call(path)
    assert "CPP304" in capfd.readouterr().err


def test_torchs_loader_sees_no_writes(
    built: dict[tuple[int, str], Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    small = Path(shutil.copy(built[SMALL, ".so"], tmp_path / "small.so"))
    call = stock_call(small)
    overwrite(small)
    assert torch.equal(call(torch.ones(SMALL)), torch.full((SMALL,), 1 + VALUE))
    large = Path(shutil.copy(built[LARGE, ".so"], tmp_path / "large.so"))
    call = stock_call(large)
    overwrite(large)
    with pytest.raises(RuntimeError) as error:
        call(torch.ones(LARGE))
    assert "WIR713" in str(error.value) + capfd.readouterr().err


@pytest.mark.parametrize(("at", "value"), [(4, 1), (5, 2), (18, 183), (0, 0)])
def test_code_of_another_machine_is_refused(
    built: dict[tuple[int, str], Path], suffix: str, at: int, value: int, tmp_path: Path
) -> None:
    """32 bits, the other order of bytes, AArch64, and no ELF file, with checksums that fit."""
    path = copied(built[SMALL, suffix], tmp_path)
    image, data = find_image(path), bytearray(path.read_bytes())
    code, end = image.begin + image.code_nbytes, image.begin + image.nbytes
    data[image.begin + at] = value
    table = end - 32 - 4 * (1 + 3)
    data[table + 4 : table + 8] = struct.pack("<I", zlib.crc32(data[image.begin : code]))
    data[table + 12 : table + 16] = struct.pack(
        "<I", zlib.crc32(data[table : table + 12] + data[end - 32 : end])
    )
    path.write_bytes(data)
    with pytest.raises(CacheError, match="CPP304"):
        cpp_wrapper.load(path)


def test_pipes_and_devices_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "m.so"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(CacheError, match="CPP304"):
            cpp_wrapper.load(path)
    os.mkfifo(tmp_path / "m.pt2")
    with pytest.raises(CacheError, match="CPP304"):
        cpp_wrapper.load(tmp_path / "m.pt2")


def test_checksums_go_over_gaps_between_constants() -> None:
    first, second = os.urandom((1 << 20) - 3), os.urandom(100)
    blobs = [
        Blob("a", 0, 0, len(first), memoryview(first), is_owned=False),
        Blob("b", 1, 1 << 20, len(second), memoryview(second), is_owned=False),
    ]
    want = [zlib.crc32(first + bytes(3)), zlib.crc32(second)]
    assert constant_checksums(blobs) == b"".join(one.to_bytes(4, "little") for one in want)
    assert constant_checksums([]) == b""


# Any: JSON
FACTS: list[Any] = [
    [],
    {},
    {"version": METADATA_VERSION},
    {"version": METADATA_VERSION, "signature": [], "inputs": []},
    "x",
    None,
]


@pytest.mark.parametrize("facts", FACTS)
def test_metadata_of_another_form_is_refused(
    built: dict[tuple[int, str], Path], facts: Any, tmp_path: Path
) -> None:
    """With checksums that fit."""
    data = built[SMALL, ".so"].read_bytes()
    magic, code, constants, length = struct.unpack("<8sQQQ", data[-32:])
    text = json.dumps(facts).encode()
    table = data[code + constants + length : -32][:-8] + struct.pack("<I", zlib.crc32(text))
    footer = struct.pack("<8sQQQ", magic, code, constants, len(text))
    path = tmp_path / "m.so"
    path.write_bytes(
        data[: code + constants] + text + table + struct.pack("<I", zlib.crc32(table + footer)) + footer
    )
    with pytest.raises(CacheError, match="CPP304"):
        cpp_wrapper.load(path)
