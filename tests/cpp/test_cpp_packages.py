"""Packages: torch's loaders open them unchanged, ours opens them without extracting, and both without a
compiler.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import weakref
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch._inductor
from torch import Tensor
from torch._C._aoti import AOTIModelPackageLoader
from transformers.modeling_outputs import BaseModelOutput

import cpp_wrapper
from cpp_wrapper import CacheError
from cpp_wrapper.library.package import find_image
from inductor_frontend import capture
from tests.cpp.cpp_case import FAST
from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime import Convention


class Tied(torch.nn.Module):
    """Nested arguments, a keyword, a number that is baked in, tied weights, an output that is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8, bias=False)
        self.second = torch.nn.Linear(8, 8, bias=False)
        self.second.weight = self.first.weight
        self.shift: Tensor
        self.register_buffer("shift", torch.arange(float(1 << 20)))  # mapped, not copied

    def forward(
        self, x: tuple[Tensor, list[Tensor]], *, scale: Tensor, flag: bool = True
    ) -> dict[str, object]:
        """One value of each kind."""
        y = self.second(torch.relu(self.first(x[0]))) + self.shift[:8]
        return {"y": y * scale, "rest": [x[1][0], 3], "sum": (x[1][0].sum() if flag else y,)}


SCALE = torch.tensor(2.0)
ARGS = ((torch.randn(3, 8), [torch.randn(5)]),)
KWARGS: dict[str, object] = {"scale": SCALE, "flag": True}


@pytest.fixture(scope="module")
def model() -> Tied:
    return Tied().eval()


@pytest.fixture(scope="module")
def package(model: Tied, tmp_path_factory: pytest.TempPathFactory) -> Path:
    artifact = capture(model, ARGS, KWARGS)
    return cpp_wrapper.build(artifact, tmp_path_factory.mktemp("package") / "m.pt2", FAST)


def _same(found: object, want: object) -> None:
    torch.testing.assert_close(found, want)


def test_our_loader_and_torchs_give_the_models_own_outputs(package: Path, model: Tied) -> None:
    ours, theirs = cpp_wrapper.load(package), torch._inductor.aoti_load_package(str(package))
    for scale in (2.0, 5.0):
        kwargs = {**KWARGS, "scale": torch.tensor(scale)}
        with torch.no_grad():
            want = model(*ARGS, **kwargs)
        found = ours(*ARGS, **kwargs)
        _same(found, want)
        assert found["rest"][0] is ARGS[0][1][0]
        other = theirs(*ARGS, **kwargs)
        _same({k: other[k] for k in ("y", "sum")}, {k: want[k] for k in ("y", "sum")})
        assert other["rest"][0] is not None
        assert int(other["rest"][1]) == 3  # torch's runners return tensors only


def test_the_cpp_package_loader_takes_it(package: Path, model: Tied) -> None:
    loader = AOTIModelPackageLoader(str(package), "model", False, 1, -1)
    assert loader.get_metadata()["AOTI_DEVICE_KEY"] == "cpu"
    flat = [ARGS[0][0], *ARGS[0][1], SCALE]
    with torch.no_grad():
        _same(loader.run(flat)[0], model(*ARGS, **KWARGS)["y"])


def test_calls_are_arranged_as_those_of_the_model(package: Path, model: Tied) -> None:
    program = cpp_wrapper.load(package)
    (x,) = ARGS
    with torch.no_grad():
        want = model(x, **KWARGS)["y"]
    _same(program(x=x, **KWARGS)["y"], want)
    _same(program(x, flag=True, scale=SCALE)["y"], want)
    _same(program(x, scale=torch.nn.Parameter(SCALE, requires_grad=False))["y"], want)
    with pytest.raises(Exception, match="WIR926"):
        program(x, scale=SCALE, flag=False)
    with pytest.raises(Exception, match="WIR930"):
        program((x[0].clone().requires_grad_(), x[1]), **KWARGS)
    with torch.no_grad():
        _same(program((x[0].clone().requires_grad_(), x[1]), **KWARGS)["y"], want)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _same(program(x, **KWARGS)["y"], want)
    negated = torch.view_as_real(
        torch.randn(4, dtype=torch.complex64).conj().imag[None].mT.to(torch.complex64)
    )
    with pytest.raises(Exception, match="WIR92"):
        program((x[0], [negated]), **KWARGS)


class Pair(NamedTuple):
    first: Tensor
    rest: object


def _classes(x: Tensor) -> object:
    """A named tuple with a list of a class that is registered as a structure, and None."""
    return Pair(x + 1, [BaseModelOutput(last_hidden_state=x * 2, hidden_states=(x, x)), None])


def test_outputs_of_other_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(3)
    package = cpp_wrapper.build(capture(_classes, (x,)), tmp_path / "classes.pt2", FAST)
    program = cpp_wrapper.load(package)
    want = _classes(x)
    assert repr(program(x)) == repr(want)  # arranged in Python: the guard has seen no argument before
    with monkeypatch.context() as patch:
        patch.setattr(Convention, "finish", None)  # the library creates them itself
        found = program(x)
    assert repr(found) == repr(want)
    assert isinstance(found, Pair)
    assert isinstance(found.rest, list)
    assert found.rest[0].hidden_states[1] is x
    monkeypatch.delattr(
        sys.modules[__name__], "Pair"
    )  # a call names the missing part; loading and boxed calls work
    program = cpp_wrapper.load(package)
    with pytest.raises(ExecutionError, match=r"WIR926\].*Pair' of the signature cannot be imported"):
        program(x)
    torch.testing.assert_close(program.boxed([x])[0], x + 1)


def test_a_program_that_is_deleted_leaves_no_constants(package: Path, tmp_path: Path) -> None:
    """Released at once, without waiting for the garbage collector, which does not see a library's memory."""
    package = Path(shutil.copy(package, tmp_path / "deleted.pt2"))
    programs = [cpp_wrapper.load(package) for _ in range(2)]
    (x,) = ARGS
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = [program(x, **KWARGS) for program in programs]  # arranged in Python
    alive = [weakref.ref(program) for program in programs]
    gc.disable()
    try:
        for left in (1, 0):
            programs.pop()
            assert sum(ref() is not None for ref in alive) == left
            assert Path("/proc/self/maps").read_text().count(str(package)) == left
    finally:
        gc.enable()
    _same(found[0], found[1])


def test_members_are_stored_and_the_library_begins_at_a_page(package: Path) -> None:
    with zipfile.ZipFile(package) as archive:
        assert archive.testzip() is None
        assert {i.compress_type for i in archive.infolist()} == {zipfile.ZIP_STORED}
        assert all(i.date_time[0] == 1980 for i in archive.infolist())
    image = find_image(package)
    assert image.begin % 4096 == 0
    assert cpp_wrapper.metadata(package) == image.facts
    assert set(image.facts["constants"]) == {"first.weight", "second.weight", "shift"}


def test_constants_are_mapped_from_the_package(package: Path) -> None:
    programs = [cpp_wrapper.load(package) for _ in range(3)]
    lines = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(package) in line]
    assert len(lines) >= len(programs)
    assert all(line.split()[1] == "rw-p" for line in lines)  # a write gets a page of this process
    assert {int(line.split()[4]) for line in lines} == {package.stat().st_ino}
    (x,) = ARGS
    for program in programs:
        program(x, **KWARGS)
    mappings = re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())
    dirty = [re.findall(r"Private_Dirty: +(\d+) kB", one) for one in mappings if str(package) in one]
    assert dirty == [["0"]] * len(lines)  # so that instances and processes share each page


def test_nothing_is_extracted_and_no_program_is_started(package: Path, tmp_path: Path) -> None:
    code = f"""
import os, subprocess, sys, torch
def refuse(*args, **kwargs): raise AssertionError(args)
subprocess.Popen.__init__ = os.system = refuse
import cpp_wrapper
f = cpp_wrapper.load({str(package)!r})
out = f((torch.ones(3, 8), [torch.ones(5)]), scale=torch.tensor(2.0), flag=True)
assert out["sum"][0].item() == 5.0
assert "torch._inductor" not in sys.modules and "torch._dynamo" not in sys.modules
assert os.listdir({str(tmp_path)!r}) == []
"""
    env = {**os.environ, "TMPDIR": str(tmp_path), "WRAPPER_IR_CXX": "no-such-compiler"}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_damaged_packages_are_errors(package: Path, tmp_path: Path) -> None:
    data = package.read_bytes()
    for name, damaged in (("short", data[: len(data) // 2]), ("none", b""), ("other", b"not a package")):
        path = tmp_path / f"{name}.pt2"
        path.write_bytes(damaged)
        with pytest.raises(CacheError, match="CPP304"):
            cpp_wrapper.load(path)
    image = find_image(package)
    code = tmp_path / "code.so"
    code.write_bytes(data[image.begin : image.begin + image.code_nbytes])
    with pytest.raises(CacheError, match="CPP304"):
        cpp_wrapper.load(code)
    with pytest.raises(RuntimeError, match="create_func_"):
        torch._C._aoti.AOTIModelContainerRunnerCpu(str(code), 1)
