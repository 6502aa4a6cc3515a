"""Failures of Triton kernels on the way from a program to its results: a clear error or a fallback, and the
next call works.

Programs are compiled by `py_wrapper`; their kernels by Triton's compiler, for an absent GPU, through the
store on disk; then Triton's interpreter runs them.
"""

from __future__ import annotations

import errno
import warnings
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import py_wrapper
from py_wrapper import PyOptions
from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import StoreWarning
from wrapper_ir.plugins.protocols import CompiledProgram, LoadedKernel
from wrapper_ir_runtime.cache import CacheSettings

pytest.importorskip("triton", reason="kernels are compiled by triton")

from triton_runtime import CompileError, Launchable, TritonOptions, TritonRuntime
from triton_runtime.errors import KernelError, TuningError
from triton_runtime.interp import InterpreterDriver
from triton_runtime.settings import Settings
from triton_runtime.tune import DeviceKey, HostTimer, MeasureOptions, TuneOptions

SOURCE = """
import triton
import triton.language as tl

@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
"""
PROGRAM = """wir 0.5
target cpu

kernel triton @double entry "double" (read f32* x divisible(16), write f32* out divisible(16), i32 n)
  order(x, out, n, BLOCK)
  configs({BLOCK = 64} warps(4) stages(1), {BLOCK = 32} warps(2) stages(1))
  grid(ceildiv(n, BLOCK))
  {{{
%s}}}

func @main(%%x: f32[100]) {
  %%out = alloc f32[100]
  launch @double(%%x, %%out, 100)
  drop %%x
  return %%out
}
"""
DEVICE = ir.Device("cuda", 0)
HERE = ThreadPoolExecutor(1)
"""Compiles in this process, which has loaded all dependencies."""
QUICK = TuneOptions(measure=MeasureOptions(rounds=2, trial=2))


def artifact(source: str = SOURCE) -> Artifact:
    return bare_artifact(parse_program(PROGRAM % source))


@dataclass
class Machine:
    """A driver for kernels that are compiled for a GPU and run by the interpreter, and the runtime with it."""

    folder: Path
    arch: str = "sm_90"
    cache: Path | None = None
    tune: TuneOptions | None = None
    executor: Executor | None = HERE
    launches: list[str] = field(default_factory=list)
    trouble: dict[int, Exception] = field(default_factory=dict)
    """Errors of a launch, by block size."""
    needs_binary: bool = True
    name: str = "interpreter"

    def __post_init__(self) -> None:
        cache = CacheSettings(folder=self.cache or self.folder / "cache", fallback=self.folder / "fallback")
        settings = Settings(cache=cache, jobs=1)
        options = TritonOptions(
            driver=self,
            tune=self.tune,
            executor=self.executor,
            local=False,  # some of these kernels kill their compiler process
            timer=HostTimer(ir.CPU),
            device_key=DeviceKey("a device", "3"),
        )
        self.runtime = TritonRuntime(settings=settings, options=options)

    def load(
        self, launchable: Any, device: ir.Device
    ) -> LoadedKernel:  # Any: a driver's and a runtime's argument
        assert isinstance(launchable, Launchable)
        assert launchable.binary is not None
        assert launchable.binary.image[:4] == b"\x7fELF"
        inner = InterpreterDriver(folder=self.folder / "sources").load(launchable, ir.CPU)
        block = dict(launchable.config.meta)["BLOCK"]
        assert isinstance(block, int)

        def launch(*args: object) -> None:
            if block in self.trouble:
                raise self.trouble[block]
            inner(*args)
            self.launches.append(launchable.kernel.name)

        return launch

    def compile(self, what: Artifact | None = None) -> CompiledProgram:
        options = PyOptions(find_runtime=lambda kind: ForGpu(self), cache_folder=self.folder / "modules")
        return py_wrapper.compile(what or artifact(), options)

    def works(self, call: CompiledProgram | None = None) -> None:
        """A call that finds all well."""
        x = torch.randn(100)
        before = len(self.launches)
        [result] = (call or self.compile()).boxed([x])
        assert torch.equal(result, x * 2)
        assert len(self.launches) > before


@dataclass
class ForGpu:
    """The machine's runtime, which treats every program as one for a GPU."""

    machine: Machine
    kind: str = "triton"

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        return self.load_all([kernel], target)[kernel.name]

    def load_all(self, kernels: Sequence[ir.KernelDef], target: ir.Target) -> dict[str, LoadedKernel]:
        return self.machine.runtime.load_all(kernels, ir.Target(device=DEVICE, arch=self.machine.arch))


def test_all_is_well(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.works()
    assert (machine.runtime.stats.compiled, machine.runtime.stats.reused) == (1, 0)
    other = Machine(tmp_path)
    other.works()
    assert (other.runtime.stats.compiled, other.runtime.stats.reused) == (0, 1)


def test_a_compiler_error(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with pytest.raises(
        CompileError, match=r"(?s)TR201.*'double'.*BLOCK = 64.*line \d+: .*no_such_thing"
    ) as caught:
        machine.compile(artifact(SOURCE.replace("* 2", ".no_such_thing")))
    assert caught.value.hint
    machine.works()


def test_a_source_that_does_not_load(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with pytest.raises(KernelError, match=r"(?s)TR104.*'double'.*no_such_module"):
        machine.compile(artifact("import no_such_module\n" + SOURCE))
    machine.works()


@pytest.mark.parametrize("arch", ["sm_60", "", "gfx942"])
def test_an_unsupported_target(arch: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, arch=arch)
    with pytest.raises(CompileError, match=r"TR202.*not an architecture that Triton compiles for"):
        machine.compile()
    machine.arch = "sm_80"
    machine.works()


class TestNoMemoryWhileTuning:
    NONE = torch.OutOfMemoryError("CUDA out of memory")

    def test_for_one_config(self, tmp_path: Path) -> None:
        """The choice is among the others; the measurements contain the reason for its missing time."""
        machine = Machine(tmp_path, tune=QUICK, trouble={64: self.NONE})
        machine.works()
        [entry] = machine.runtime.measurements.entries.values()
        assert entry.failed == {"BLOCK=64 warps=4 stages=1": "CUDA out of memory"}

    def test_for_all(self, tmp_path: Path) -> None:
        machine = Machine(tmp_path, tune=QUICK, trouble={64: self.NONE, 32: self.NONE})
        call = machine.compile()
        with pytest.raises(TuningError, match=r"(?s)TR602.*@double.*BLOCK=64.*out of memory.*BLOCK=32"):
            call.boxed([torch.randn(100)])
        machine.trouble.clear()
        machine.works(call)  # the very same callable
        machine.works()

    def test_for_copies_of_arguments(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """They go to the host."""
        text = PROGRAM.replace("read f32* x", "readwrite f32* x") % SOURCE.replace(
            "mask=at < n)\n",
            "mask=at < n)\n    tl.store(x + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)\n",
        )
        machine = Machine(tmp_path, tune=QUICK)
        call = machine.compile(bare_artifact(parse_program(text)))
        copied = Tensor.clone
        refused = []

        def clone(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:  # Any: torch's own
            if tensor.dtype is torch.uint8:
                refused.append(tensor.numel())
                raise self.NONE
            return copied(tensor, *args, **kwargs)

        monkeypatch.setattr(Tensor, "clone", clone)
        x = torch.arange(100.0)
        [result] = call.boxed([x])
        assert refused == [400]
        assert torch.equal(result, torch.arange(100.0) * 2)
        assert torch.equal(x, torch.arange(100.0) + 1)  # once, however often it was measured


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:-1], lambda data: data[:-9] + b"\0" * 9]
)
def test_a_poisoned_cache_entry(damage: Any, tmp_path: Path) -> None:  # Any: a function of bytes
    Machine(tmp_path).works()
    [entry] = (tmp_path / "cache/1/triton").glob("*/*/data")
    entry.write_bytes(damage(entry.read_bytes()))
    machine = Machine(tmp_path)
    with pytest.warns(RuntimeWarning, match=r"WIR254.*damaged and set aside"):
        machine.works()
    assert machine.runtime.stats.compiled == 1
    again = Machine(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.works()
    assert again.runtime.stats.reused == 1


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are stored in the fallback; after space is available again, in the cache."""
    cache = tmp_path / "cache"
    written = Path.write_bytes

    def write_bytes(path: Path, data: bytes) -> int:
        if path.is_relative_to(cache):
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(path, data)

    machine = Machine(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write_bytes)
        with pytest.warns(RuntimeWarning, match=r"WIR250.*No space left on device"):
            machine.works()
        assert not list(cache.glob("1/triton/*/*"))
        other = Machine(tmp_path)
        other.works()
        assert other.runtime.stats.reused == 1  # in the fallback
    Machine(tmp_path).works()


@pytest.mark.parametrize("place", ["/proc/no/cache", "/dev/null/cache"])
def test_a_cache_directory_that_cannot_be_written(place: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, cache=Path(place))
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        machine.works()
    other = Machine(tmp_path, cache=Path(place))
    with warnings.catch_warnings():
        warnings.simplefilter("error", StoreWarning)  # one warning a process
        other.works()
    assert other.runtime.stats.reused == 1


KILLS = """
import os, pathlib, sys
place = pathlib.Path({place!r})
if "pytest" not in sys.modules and len(place.read_text()) < {deaths}:
    place.write_text(place.read_text() + "x")
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_killed_worker(deaths: int, tmp_path: Path) -> None:
    """The compiler process is killed while it loads the source: the job is run once more, by another."""
    (tmp_path / "deaths").write_text("")
    source = KILLS.format(place=str(tmp_path / "deaths"), deaths=deaths) + SOURCE
    machine = Machine(tmp_path, executor=None)

    def compile() -> None:
        if deaths == 1:
            machine.works(machine.compile(artifact(source)))
        else:
            with pytest.raises(CompileError, match=r"TR203.*'double'.*status -9"):
                machine.compile(artifact(source))

    with pytest.warns(RuntimeWarning, match=r"compiling kernel 'double' again: .*status -9"):
        compile()
    assert machine.runtime.stats.retried == 1
    assert len((tmp_path / "deaths").read_text()) == deaths
    machine.works()
    machine.works(machine.compile(artifact(source)))


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (torch.zeros(100, dtype=torch.float64), "f64|float64"),
        (torch.zeros(100, device="meta"), "meta"),
        (torch.zeros(104)[1:101], "multiple of 16|align"),
        (3.0, "float"),
    ],
    ids=["dtype", "device", "alignment", "number"],
)
def test_wrong_arguments(x: Any, said: str, tmp_path: Path) -> None:  # Any: any arguments of a caller
    machine = Machine(tmp_path)
    call = machine.compile()
    with pytest.raises(Exception, match=said) as caught:
        call.boxed([x])
    assert getattr(caught.value, "code", "").startswith(("TR3", "WIR9"))  # of whichever package finds it
    assert machine.launches == []
    machine.works(call)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels run on a CUDA device, and there is none")
def test_a_cpu_tensor_on_a_device() -> None:
    """And a tensor of another dtype: explained, and the next call works."""
    major, minor = torch.cuda.get_device_capability()
    text = PROGRAM % SOURCE
    text = text.replace("target cpu", f'target cuda:0 arch "sm_{major}{minor}"').replace(
        "f32[100]", "f32[100] @cuda:0"
    )
    call = py_wrapper.compile(bare_artifact(parse_program(text)))
    x = torch.randn(100, device="cuda")
    for wrong in (x.cpu(), x.double()):
        with pytest.raises(Exception, match=r"TR302|WIR9"):
            call.boxed([wrong])
        [result] = call.boxed([x.clone()])
        assert torch.equal(result, x * 2)
