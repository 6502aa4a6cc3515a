"""Kernels for AVX-512, AVX2 and any processor in one library.

On any machine, each level runs without the code of those above it. That code traps here, as it does on a
processor without the instructions.
"""

from __future__ import annotations

import faulthandler
import os
import platform
import re
import shutil
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import cpp_wrapper
from cpp_wrapper import IsaError
from cpp_wrapper._compat import torch_library_dir
from cpp_wrapper.kernels.compile import Unit, link_library
from cpp_wrapper.kernels.isa import ISAS
from cpp_wrapper.kernels.toolchain import find_toolchain, library_recipe
from cpp_wrapper.library.build import EXPORTS, Build
from cpp_wrapper.library.write import write_image
from cpp_wrapper.settings import read_settings
from cpp_wrapper.sources.program import Sources
from inductor_frontend import capture
from tests.cpp.cpp_case import FAST

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="instruction sets of x86-64")
LEVELS = ("avx512", "avx2", "generic")
CAPABILITIES = {"avx512": "avx512", "avx2": "avx2", "generic": "default"}
"""Setting by which torch, and our libraries, choose no higher level."""
STARTS = re.compile("_GLOBAL__sub_I|__static_initialization")
"""Code that runs when a library is loaded: older libraries of g++ construct the streams of `<iostream>`
there, which torch's headers include.
"""
UD2 = b"\x0f\x0b"
"""The instruction that no processor has."""


class Model(torch.nn.Module):
    """Reductions, one of them with a table of torch's, a conversion, and a function of vectors."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """[7, 37] twice."""
        long = (
            torch.cat([x.flatten()] * 20).view(1, -1).var(-1)
        )  # 5180 elements: torch before 2.13 needs fewer
        return torch.softmax(x.sin() + y, -1), x.var(-1), long, (x * 3).to(torch.bfloat16)


INPUTS = (torch.linspace(-2, 2, 259).view(7, 37), torch.linspace(1, 3, 259).view(7, 37))


def _sources(*levels: str) -> Sources:
    return cpp_wrapper.emit(capture(Model(), INPUTS, cpu_isas=levels))


def _objects(sources: Sources, folder: Path) -> dict[str, Path]:
    """The compiled units, by the names of their sources, in the order in which they are linked."""
    settings = read_settings()
    build = Build(sources, FAST, settings, find_toolchain(settings.compiler))
    found = {}
    for entry in build.objects():
        names = {path.name for path in entry.folder.glob("*.cpp")}
        (source,) = names & {"library.cpp"} or names  # which includes the files of the runtime
        found[source] = Path(shutil.copy(entry.folder / "unit.o", folder / f"{source}.o"))
    return found


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sources, dict[str, Path]]:
    """A program with a source for each level, and its units: `kernels_0.cpp` to `kernels_2.cpp`, in this
    order.
    """
    sources = _sources(*LEVELS)
    return sources, _objects(sources, tmp_path_factory.mktemp("levels"))


def _kernels(level: str) -> str:
    return f"kernels_{LEVELS.index(level)}.cpp"


def _functions(unit: Path) -> Iterator[int]:
    """Returns the file offsets of an object's functions."""
    listed = subprocess.run(["readelf", "-SsW", unit], capture_output=True, text=True, check=True).stdout
    begins: dict[str, int] = {}
    for line in listed.splitlines():
        words = line.replace("[ ", "[").split()
        if words and words[0][0] == "[" and words[0][1:-1].isdecimal():
            begins[words[0][1:-1]] = int(words[4], 16)
        elif len(words) > 7 and words[3] == "FUNC" and words[6] in begins and not STARTS.search(words[7]):
            yield begins[words[6]] + int(words[1], 16)


def _trapped(unit: Path, folder: Path) -> Path:
    """The object with a trap at the begin of each of its functions."""
    data = bytearray(unit.read_bytes())
    begins = list(_functions(unit))
    assert begins
    for begin in begins:
        data[begin : begin + len(UD2)] = UD2
    path = folder / f"trapped_{unit.name}"
    path.write_bytes(data)
    return path


def _library(sources: Sources, units: dict[str, Path], trapped: set[str], folder: Path) -> Path:
    objects = [_trapped(path, folder) if name in trapped else path for name, path in units.items()]
    objects.append(torch_library_dir() / "libtorch_cpu.so")
    exports = folder / "exports.map"
    exports.write_text(EXPORTS)
    recipe = library_recipe(find_toolchain(read_settings().compiler), FAST)
    code = Unit(what="the library", output=folder / "code.so", code="CPP106")
    link_library(recipe, code, objects, exports, FAST.timeout)
    path = folder / "m.so"
    with path.open("wb") as file:
        write_image(file, code.output.read_bytes(), sources.constants, sources.metadata)
    return path


def _in_a_process(call: Callable[[], bool], capability: str) -> int:
    """Returns the exit status of a separate process: 0 if the call succeeds, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        status = 2
        faulthandler.disable()  # a trap is expected
        try:
            os.environ["ATEN_CPU_CAPABILITY"] = capability
            status = 0 if call() else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the call hangs")


def _is_right(library: Path) -> bool:
    found = cpp_wrapper.load(library)(*INPUTS)
    pairs = zip(found, Model()(*INPUTS), strict=True)
    return all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) and a.dtype == b.dtype for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_each_level_runs_without_the_code_of_those_above(
    level: str, levels: tuple[Sources, dict[str, Path]], tmp_path: Path
) -> None:
    above = {_kernels(name) for name in LEVELS[: LEVELS.index(level)]}
    library = _library(*levels, above, tmp_path)
    assert _in_a_process(lambda: _is_right(library), CAPABILITIES[level]) == 0


def test_code_that_traps_is_found(levels: tuple[Sources, dict[str, Path]], tmp_path: Path) -> None:
    library = _library(*levels, {_kernels("generic")}, tmp_path)
    assert _in_a_process(lambda: _is_right(library), "default") == -signal.SIGILL


@pytest.mark.slow
def test_a_processor_that_lacks_the_only_level_is_refused_without_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The units that refuse take nothing that was compiled for its instructions."""
    level = ISAS["avx512"]
    monkeypatch.setitem(
        ISAS, "avx512", replace(level, needs=level.needs | {"wir_none"})
    )  # no processor has it
    sources = _sources("avx512")
    library = _library(sources, _objects(sources, tmp_path), {"kernels_0.cpp"}, tmp_path)

    def is_refused() -> bool:
        with pytest.raises(IsaError, match=r"CPP201.*lacks:.* wir_none"):
            cpp_wrapper.load(library)
        return True

    assert _in_a_process(is_refused, "default") == 0


def test_levels_share_no_functions(levels: tuple[Sources, dict[str, Path]]) -> None:
    """This includes functions that the program does not call."""
    _, units = levels
    shared: dict[str, set[str]] = {}
    for name, path in units.items():
        listed = subprocess.run(
            ["nm", "--defined-only", path], capture_output=True, text=True, check=True
        ).stdout
        rows = [line.split() for line in listed.splitlines()]
        shared[name] = {row[-1] for row in rows if row[-2] in "WVu" and row[-1].startswith("_Z")}
    for name in map(_kernels, LEVELS):
        assert not shared.pop(name)
        code = subprocess.run(
            ["objdump", "-d", units[name]], capture_output=True, text=True, check=True
        ).stdout
        starts = [part for part in code.split("\n\n") if STARTS.search(part.partition(":")[0])]
        assert "mm" in code
        assert not any(re.search("%[xyz]mm", part) for part in starts)  # they run on any processor
    assert all(shared.values())  # nm lists the others
