"""A file whose constants are in use: written, truncated, replaced and deleted, in every engine, copied and
mapped.

A program never computes with bytes other than those that it loaded: it continues as before, or raises WIR713.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import fx_converter
import py_wrapper
import wrapper_ir
from fx_converter import FxOptions
from py_wrapper.machine import TORCH_MACHINE
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, TensorData, bare_artifact
from wrapper_ir.artifact.file import LoadOptions
from wrapper_ir.errors import ArtifactError
from wrapper_ir.support.files import MAP_FROM, MappedFile, read_bytes, replacing
from wrapper_ir_runtime.interp import Interpreter

TEXT = """
wir 0.5
target cpu

const %c : f32[{n}]

extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"

func @main(%x: f32[{n}]) {{
  %y = call aten::add.Tensor(%x, %c) : f32[{n}]
  return %y
}}
"""
Call = Callable[[Tensor], Tensor]
Engine = Callable[[Artifact], Call]


def make(value: float, count: int = 4096) -> Artifact:
    """A program that adds a constant."""
    data = TensorData(ir.DType.F32, memoryview(struct.pack("<f", value) * count))
    program = wrapper_ir.parse_program(TEXT.format(n=count))
    constants = tuple(dataclasses.replace(c, data_hash=data.sha256()) for c in program.constants)
    return bare_artifact(dataclasses.replace(program, constants=constants), {"c": data})


def interpreter(artifact: Artifact) -> Call:
    made = Interpreter(artifact, TORCH_MACHINE)
    return lambda x: made(x)[0]


def python(artifact: Artifact) -> Call:
    made = py_wrapper.compile(artifact)
    return lambda x: made(x)[0]


def fx_compiled(artifact: Artifact) -> Call:
    made = fx_converter.compile(artifact)
    return lambda x: made(x)[0]


def fx_module(artifact: Artifact) -> Call:
    made = fx_converter.convert(artifact)
    return lambda x: made(x)[0]


def fx_traceable(artifact: Artifact) -> Call:
    made = fx_converter.convert(artifact, FxOptions(kernel_calls="hop"))
    return lambda x: made(x)[0]


ENGINES = [interpreter, python, fx_compiled, fx_module, fx_traceable]


def overwrite(path: Path) -> None:
    """Another artifact of the same length, in place."""
    other = path.with_name("other.wir")
    wrapper_ir.save(make(7.0), other)
    data = other.read_bytes()
    assert len(data) == path.stat().st_size
    with path.open("r+b") as file:
        file.write(data)


def overwrite_and_hide(path: Path) -> None:
    """The same, with the times of the old one."""
    before = path.stat()
    overwrite(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def truncate(path: Path) -> None:
    os.truncate(path, 100)


def empty_and_write(path: Path) -> None:
    """Empties and writes the file, as a copy onto it does."""
    other = path.with_name("other.wir")
    wrapper_ir.save(make(7.0), other)
    shutil.copyfile(other, path)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def rename(path: Path) -> None:
    other = path.with_name("other.wir")
    wrapper_ir.save(make(7.0), other)
    os.replace(other, path)


def save_again(path: Path) -> None:
    wrapper_ir.save(make(7.0), path)


def delete(path: Path) -> None:
    path.unlink()


def link(path: Path) -> None:
    os.link(path, path.with_name("link.wir"))


WRITES = [overwrite, overwrite_and_hide, truncate, empty_and_write, grow]
HARMLESS = [rename, save_again, delete, link]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "m.wir"
    wrapper_ir.save(make(1.0), found)
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("change", WRITES)
def test_written_while_mapped(path: Path, engine: Engine, change: Callable[[Path], None]) -> None:
    call = engine(wrapper_ir.load(path, LoadOptions(map_from=0)))
    x = torch.zeros(4096)
    assert call(x).eq(1).all()
    change(path)
    for _ in range(2):  # and it stays refused
        with pytest.raises(ArtifactError) as raised:
            call(x)
        assert raised.value.code == "WIR713"
        assert str(path) in str(raised.value)
        assert "renaming" in raised.value.hint


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("change", HARMLESS)
def test_replaced_while_mapped(path: Path, engine: Engine, change: Callable[[Path], None]) -> None:
    call = engine(wrapper_ir.load(path, LoadOptions(map_from=0)))
    x = torch.zeros(4096)
    change(path)
    for _ in range(2):
        assert call(x).eq(1).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("change", [*WRITES, *HARMLESS])
def test_small_files_are_copied(path: Path, engine: Engine, change: Callable[[Path], None]) -> None:
    call = engine(wrapper_ir.load(path))
    change(path)
    assert call(torch.zeros(4096)).eq(1).all()


@pytest.mark.parametrize("change", [overwrite, truncate])
def test_an_engine_made_after_the_change(path: Path, change: Callable[[Path], None]) -> None:
    """Between loading and the first call, and when the loaded artifact is saved."""
    artifact = wrapper_ir.load(path, LoadOptions(map_from=0))
    calls = [engine(artifact) for engine in ENGINES]
    change(path)
    for call in calls:
        with pytest.raises(ArtifactError, match="WIR713"):
            call(torch.zeros(4096))
    with pytest.raises(ArtifactError, match="WIR713"):
        wrapper_ir.save(artifact, path.with_name("copy.wir"))
    with pytest.raises(ArtifactError, match="WIR713"):
        py_wrapper.write(artifact, path.with_name("folder"))


def test_graphs_are_not_saved_with_other_bytes(path: Path) -> None:
    module = fx_converter.convert(wrapper_ir.load(path, LoadOptions(map_from=0)))
    overwrite(path)
    with pytest.raises(ArtifactError, match="WIR713"):
        fx_converter.save(module, path.with_name("graph.wir"))


def test_saved_over_itself(path: Path) -> None:
    """`save` onto the file that an artifact is mapped from: both are whole, and running programs continue."""
    artifact = wrapper_ir.load(path, LoadOptions(map_from=0))
    call = python(artifact)
    wrapper_ir.save(artifact, path)
    fx_converter.save(fx_converter.convert(artifact), path)
    assert call(torch.zeros(4096)).eq(1).all()
    assert python(wrapper_ir.load(path))(torch.zeros(4096)).eq(1).all()


def test_copies_of_modules_have_tensors_of_their_own(path: Path) -> None:
    module = copy.deepcopy(fx_converter.convert(wrapper_ir.load(path, LoadOptions(map_from=0))))
    overwrite(path)
    assert module(torch.zeros(4096))[0].eq(1).all()


def test_mutable_constants_are_not_watched(tmp_path: Path) -> None:
    made = make(1.0)
    mutable = tuple(dataclasses.replace(c, mutable=True) for c in made.program.constants)
    program = dataclasses.replace(made.program, constants=mutable)
    path = tmp_path / "m.wir"
    wrapper_ir.save(dataclasses.replace(made, program=program), path)
    artifact = wrapper_ir.load(path, LoadOptions(map_from=0))
    assert not artifact.mapped_files()
    calls = [engine(artifact) for engine in ENGINES]
    truncate(path)
    for call in calls:
        assert call(torch.zeros(4096)).eq(1).all()


FOLDER = """
import os, sys, torch
from pathlib import Path
from wrapper_ir.errors import ArtifactError

def use(folder, change):
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    import program

    x = torch.zeros(program.constant("c", torch.float32, (int(folder.name),), (1,)).shape)
    assert program.forward(x)[0].eq(1).all()
    constants = Path("constants.safetensors")
    match change:
        case "write":
            with constants.open("r+b") as file:
                file.seek(-4, 2)
                file.write(b"abcd")
        case "truncate":
            os.truncate(constants, 100)
        case "replace":
            Path("new").write_bytes(b"")
            Path("new").replace(constants)
        case "delete":
            constants.unlink()
    try:
        found = program.forward(x)[0].eq(1).all().item()
    except ArtifactError as error:
        found = error.code
    print(folder.relative_to(sys.argv[1]), found, flush=True)

# each in a copy of one process that has loaded torch, which is most of what each takes
for folder in Path(sys.argv[1]).glob("*/*"):
    if (child := os.fork()) == 0:
        try:
            use(folder, folder.parent.name)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_python_folders(tmp_path: Path) -> None:
    mapped = {"write": "WIR713", "truncate": "WIR713", "replace": "True", "delete": "True"}
    for change in mapped:
        for count in (4096, MAP_FROM // 4):
            py_wrapper.write(make(1.0, count), tmp_path / change / str(count))
    command = [sys.executable, "-c", FOLDER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = dict(line.split() for line in done.stdout.splitlines())
    large = {f"{change}/{MAP_FROM // 4}": want for change, want in mapped.items()}
    assert found == {f"{change}/4096": "True" for change in mapped} | large, done.stderr
    shutil.rmtree(tmp_path)  # 512 MiB


def test_python_folders_are_replaced_not_written_into(tmp_path: Path) -> None:
    py_wrapper.write(make(1.0), tmp_path)
    mapped = read_bytes(tmp_path / "constants.safetensors", 0)
    held = bytes(mapped.data)
    py_wrapper.write(make(2.0), tmp_path)
    assert isinstance(mapped.file, MappedFile)
    mapped.file.check()
    assert bytes(mapped.data) == held
    assert (tmp_path / "constants.safetensors").read_bytes() != held


def test_what_is_written_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    check = MappedFile.check

    def write_first(file: MappedFile) -> None:
        path.write_bytes(b"y" * 50)
        check(file)

    monkeypatch.setattr(MappedFile, "check", write_first)
    with pytest.raises(ArtifactError, match="WIR713"):
        read_bytes(path)


def test_descriptors_are_given_back(path: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = count()
    for _ in range(5):
        call = python(wrapper_ir.load(path, LoadOptions(map_from=0)))
        assert call(torch.zeros(4096)).eq(1).all()
        del call
        artifact = wrapper_ir.load(path, LoadOptions(map_from=0))
        del artifact
    import gc

    gc.collect()
    assert count() <= before + 1


def test_nothing_is_left_behind_by_a_failed_writer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail() -> None:
        with replacing(path) as temporary:
            Path(temporary).write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
