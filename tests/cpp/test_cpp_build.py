"""Builds: cache hits, refusals, and no partial files."""

from __future__ import annotations

import resource
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest
import torch

import cpp_wrapper
from cpp_wrapper import CacheError, CompileError, CppOptions, EmitError
from cpp_wrapper.emitter import CppEmitter
from cpp_wrapper.kernels.compile import Unit
from cpp_wrapper.kernels.toolchain import Recipe
from cpp_wrapper.settings import Settings
from tests.cpp.cpp_case import FAST, KERNELS, artifact_of_text
from wrapper_ir.errors import StoreError
from wrapper_ir_runtime.cache import CacheSettings

TEXT = (
    KERNELS
    + """
const %w : f32[4]

func @main(%x: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %y = alloc f32[s0, 4]
  launch @double(%x, %y, s0*4)
  copy %x, %w
  return %y
}
"""
)

# Symbols that `libtorch_cpu.so` of torch 2.13 looks up in a library.
NAMED_BY_TORCH = {"AOTInductorGetLastError", "AOTInductorModelUpdateConstantsFromBlob"} | {
    f"AOTInductorModelContainer{name}"
    for name in (
        *("CreateWithDevice", "Delete", "ExtractConstantsMap", "FreeInactiveConstantBuffer", "GetCallSpec"),
        *(
            "GetConstantDtype",
            "GetConstantName",
            "GetConstantOriginalFQN",
            "GetConstantsBlobSize",
            "GetNumConstants",
        ),
        *("GetNumOutputs", "Run", "RunConstantFolding", "RunSingleThreaded", "SwapConstantBuffer"),
        *("UpdateConstantBuffer", "UpdateConstantBufferFromCpu", "UpdateInactiveConstantBuffer"),
        "UpdateUserManagedConstantBuffer",
    )
}


def _build(path: Path, settings: Settings, text: str = TEXT, value: float = 1.0) -> Path:
    artifact = artifact_of_text(text, {"w": torch.full((4,), value)})
    return cpp_wrapper.build(artifact, path, FAST, settings=settings)


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fills the cache with the common parts of libraries, and a program."""
    folder = tmp_path_factory.mktemp("warm")
    cache = CacheSettings(folder=folder / "cache", fallback=folder / "fallback")
    text = "func @main(%x: f32[4]) {\n  return %x\n}\n"
    script = _counting(folder)
    _build(folder / "m.so", Settings(cache=cache, compiler=script, jobs=2), text)
    assert _runs(folder) == (2, 1)
    return folder / "cache"


def _counting(folder: Path) -> str:
    script = folder / "counting-g++"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> "{folder}/runs.log"\nexec g++ "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


@pytest.fixture
def settings(tmp_path: Path, warm_cache: Path) -> Settings:
    """Returns settings with a separate cache, and a compiler that records its calls."""
    shutil.copytree(warm_cache, tmp_path / "cache")
    cache = CacheSettings(folder=tmp_path / "cache", fallback=tmp_path / "fallback")
    return Settings(cache=cache, compiler=_counting(tmp_path), jobs=2)


def _runs(folder: Path) -> tuple[int, int]:
    """Counts compilations, and linked libraries (without the stub of torch's)."""
    log = folder / "runs.log"
    lines = [line for line in log.read_text().splitlines() if line != "-v"]
    log.unlink()
    linked = sum("--version-script" in line for line in lines)
    return sum(" -c " in line for line in lines), linked


@pytest.mark.slow
def test_what_was_compiled_before_is_taken_from_the_cache(tmp_path: Path, settings: Settings) -> None:
    _build(tmp_path / "a.so", settings)
    assert _runs(tmp_path) == (2, 1)  # the program and its kernels
    _build(tmp_path / "b.so", settings)
    assert _runs(tmp_path) == (0, 0)
    _build(tmp_path / "c.so", settings, value=3.0)  # constants are not compiled
    assert _runs(tmp_path) == (0, 0)
    _build(tmp_path / "d.so", settings, TEXT.replace("2 * source", "3 * source"))
    assert _runs(tmp_path) == (2, 1)  # the kernels, and the program that names them
    x = torch.ones(2, 4)
    outputs = {n: cpp_wrapper.load(tmp_path / f"{n}.so")(x.clone())[0] for n in "acd"}
    assert [float(y.sum()) for y in outputs.values()] == [16, 16, 24]


def test_a_library_that_is_built_again_is_loaded_anew(tmp_path: Path, settings: Settings) -> None:
    path, x, y = tmp_path / "m.so", torch.ones(2, 4), torch.ones(2, 4)
    old = cpp_wrapper.load(_build(path, settings))
    new = cpp_wrapper.load(_build(path, settings, value=5.0))
    old(x), new(y)
    assert (float(x[0, 0]), float(y[0, 0])) == (1, 5)


def _missing(tmp_path: Path, settings: Settings) -> None:
    _build(tmp_path / "m.so", Settings(cache=settings.cache, compiler="no-such-compiler", jobs=1))


def _broken_kernel(tmp_path: Path, settings: Settings) -> None:
    _build(tmp_path / "m.so", settings, TEXT.replace("2 * source", "2 * sauce"))


def _other_parameters(tmp_path: Path, settings: Settings) -> None:
    _build(tmp_path / "m.so", settings, TEXT.replace("const float* source", "const double* source"))


def _refused(tmp_path: Path, settings: Settings) -> None:
    pinned = "  %y.s = alloc_storage s0*16 pinned\n  %y = view %y.s : f32[s0, 4]"
    _build(tmp_path / "m.so", settings, TEXT.replace("  %y = alloc f32[s0, 4]", pinned))


@pytest.mark.parametrize(
    ("fail", "kind", "code", "words"),
    [
        (_missing, CompileError, "CPP101", "no-such-compiler"),
        (_broken_kernel, CompileError, "CPP106", "sauce"),
        (_other_parameters, CompileError, "CPP106", "parameter 0 'source' is read f32*"),
        (_refused, EmitError, "CPP503", "plain memory"),
    ],
)
def test_failures_name_their_cause_and_leave_the_old_library(
    tmp_path: Path,
    settings: Settings,
    fail: Callable[[Path, Settings], None],
    kind: type[Exception],
    code: str,
    words: str,
) -> None:
    old = _build(tmp_path / "m.so", settings)
    before = sorted(p.name for p in tmp_path.iterdir())
    data = old.read_bytes()
    with pytest.raises(kind) as caught:
        fail(tmp_path, settings)
    assert code in str(caught.value)
    assert words in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert old.read_bytes() == data


def test_a_library_shows_aotinductors_interface_and_calls_the_shim_only(tmp_path: Path) -> None:
    text = "func @main(%x: f32[4]) {\n  %y = alloc f32[4]\n  copy %y, %x\n  return %y\n}\n"
    path = cpp_wrapper.build(artifact_of_text(text), tmp_path / "m.so", FAST)
    lines = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True).stdout.splitlines()
    shown = {line.split()[2] for line in lines if " T " in line}
    asked = {line.split()[1].partition("@")[0] for line in lines if line.split()[0] == "U"}
    torchs = {name for name in asked if "torch" in name or "c10" in name}
    weak = {line.split()[1] for line in lines if line.split()[0] == "w"}
    assert {
        name for name in weak | asked if name.startswith(("Py", "_Py"))
    } <= weak  # C++ programs have no Python
    own = {name for name in shown if not name.startswith("AOTInductor")}
    assert own == {
        "wir_agreed",
        "wir_check_constants",
        "wir_file",
        "wir_python",
        "wir_release",
        "wir_update",
        "wir_write_outputs",
    }
    assert shown >= NAMED_BY_TORCH
    assert torchs
    assert all(name.startswith(("aoti_torch_", "torch_")) for name in torchs)


@pytest.mark.slow
def test_the_runtime_stays_small(tmp_path: Path) -> None:
    """Every library contains it: 145 KB by g++ 12, with the code of one copy."""
    text = "func @main(%x: f32[4]) {\n  %y = alloc f32[4]\n  copy %y, %x\n  return %y\n}\n"
    path = cpp_wrapper.build(artifact_of_text(text), tmp_path / "m.so")
    assert path.stat().st_size < 160_000


@contextmanager
def _small_files(nbytes: int) -> Iterator[None]:
    """Simulates a full disk: files cannot grow further."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_is_an_error_and_leaves_the_old_library(tmp_path: Path, settings: Settings) -> None:
    path = _build(tmp_path / "m.pt2", settings)
    before, files = path.read_bytes(), sorted(p.name for p in tmp_path.iterdir())
    refused = pytest.raises(CacheError, match=r"\[CPP303\] the library cannot be written")
    with _small_files(50_000), refused:  # the library's code alone is larger
        _build(path, settings, value=2.0)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == files


def test_a_full_disk_leaves_the_old_project(tmp_path: Path) -> None:
    folder = tmp_path / "project"

    def write(value: float) -> None:
        artifact = artifact_of_text(TEXT, {"w": torch.full((4,), value)})
        cpp_wrapper.build(artifact, folder, FAST, source_only=True)

    write(1.0)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused = pytest.raises(CacheError, match=r"\[CPP303\] the project cannot be written")
    with _small_files(5_000), refused:  # the constants are smaller, the runtime's sources larger
        write(2.0)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


def _refusing(folder: Path, text: str) -> str:
    """A compiler that identifies itself, and refuses everything."""
    script = folder / "refusing-g++"
    script.write_text(f'#!/bin/sh\n[ "$*" = -v ] && exec g++ -v\necho "{text}" >&2\nexit 1\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def test_full_caches_are_an_error_of_the_cache(tmp_path: Path) -> None:
    cache = CacheSettings(folder=tmp_path / "cache", fallback=tmp_path / "fallback")
    compiler = _refusing(tmp_path, "as: unit.o: No space left on device")
    path = tmp_path / "m.pt2"
    path.write_bytes(b"old")
    with pytest.raises(StoreError, match="No space left on device"):
        _build(path, Settings(cache=cache, compiler=compiler, jobs=2))
    assert path.read_bytes() == b"old"
    assert not list(tmp_path.rglob("unit.o"))


def test_programs_that_are_built_together_are_refused_together(tmp_path: Path) -> None:
    cache = CacheSettings(folder=tmp_path / "cache", fallback=tmp_path / "fallback")
    compiler = _refusing(tmp_path, "program.cpp:1: error: no")
    emitter = CppEmitter(options=FAST, settings=Settings(cache=cache, compiler=compiler, jobs=2))
    artifacts = [artifact_of_text(TEXT, {"w": torch.full((4,), value)}) for value in (1.0, 2.0)]
    with pytest.raises(CompileError, match=r"\[CPP106\](.|\n)*program.cpp:1: error: no"):
        emitter.build_together(artifacts)
    assert not list(tmp_path.rglob("*.so"))


def test_an_interrupted_build_leaves_the_old_library_and_is_done_again(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.pt2"
    path.write_bytes(b"old")

    def half(recipe: Recipe, unit: Unit, timeout: float) -> None:
        unit.output.write_bytes(b"half")
        raise KeyboardInterrupt

    def half_image(file: BinaryIO, *rest: object) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    files = sorted(p.name for p in tmp_path.iterdir())
    for name, interrupted in (("compile_object", half), ("write_image", half_image)):
        with monkeypatch.context() as patched:
            patched.setattr(f"cpp_wrapper.library.build.{name}", interrupted)
            with pytest.raises(KeyboardInterrupt):
                _build(path, settings)
        assert path.read_bytes() == b"old"
        assert sorted({p.name for p in tmp_path.iterdir()} - {"runs.log"}) == files
    x = torch.ones(2, 4)
    assert float(cpp_wrapper.load(_build(path, settings))(x)[0].sum()) == 16


@pytest.mark.slow
def test_kernels_read_their_header_precompiled_once_that_pays(tmp_path: Path, settings: Settings) -> None:
    include = "#include <torch/csrc/inductor/cpp_prefix.h>\n"
    options = CppOptions(opt_level=0, precompile_after=1)
    told: list[str] = []
    for number in (3, 4):
        text = TEXT.replace("2 * source", f"{number} * source").replace("#include <cstdint>\n", include)
        artifact = artifact_of_text(text, {"w": torch.ones(4)})
        path = tmp_path / f"{number}.so"
        cpp_wrapper.build(
            artifact, path, options, settings=settings, progress=lambda part, s: told.append(part)
        )
        lines = (tmp_path / "runs.log").read_text().splitlines()
        assert any("c++-header" in line for line in lines) == (number == 4)
        assert any(" -include " in line for line in lines) == (number == 4)
        (tmp_path / "runs.log").unlink()
        assert float(cpp_wrapper.load(path)(torch.ones(2, 4))[0].sum()) == 8 * number
    assert {"program.cpp", "kernels_0.cpp", "library.cpp", "the library's code", "the file"} <= set(told)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(CacheError, match="CPP303"):
        _build(tmp_path / "nowhere" / "m.so", settings)


def test_other_files_are_no_libraries(tmp_path: Path) -> None:
    path = tmp_path / "m.so"
    for data in (b"", b"not a library", Path(torch._C.__file__).read_bytes()):
        path.write_bytes(data)
        with pytest.raises(CacheError, match="CPP304"):
            cpp_wrapper.load(path)
    with pytest.raises(CacheError, match="CPP304"):
        cpp_wrapper.load(tmp_path / "absent.so")


def test_threads_share_a_library(tmp_path: Path) -> None:
    text = TEXT.replace("  copy %x, %w\n", "")
    artifact = artifact_of_text(text, {"w": torch.ones(4)})
    program = cpp_wrapper.load(cpp_wrapper.build(artifact, tmp_path / "m.so", FAST))
    wrong: list[int] = []

    def run(number: int) -> None:
        for rows in range(2, 102):
            x = torch.full((rows, 4), float(number))
            if not torch.equal(program(x)[0], 2 * x):
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
