"""Kernels compile for absent devices; errors name their source, and the next job works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from packages.triton_runtime.tests.compiling import (
    BROKEN,
    CLAUSES,
    PARAMS,
    MemoryStore,
    compile_all,
    cuda,
    job_of,
)
from packages.triton_runtime.tests.triton_texts import add_kernel, kernel_of

from triton_runtime import CompileError, KernelError, TritonOptions, TritonRuntime
from triton_runtime.compile.binary import binary_from_bytes, binary_to_bytes
from triton_runtime.compile.compiler import compile_job
from triton_runtime.compile.forking import Forker, WorkerDied
from triton_runtime.compile.job import CompileJob, make_job
from triton_runtime.compile.pool import WorkerPool
from triton_runtime.compile.service import CompileStats, Workers, compile_each
from triton_runtime.fake import FakeDriver
from triton_runtime.settings import Settings
from wrapper_ir import ir
from wrapper_ir_runtime.cache import CacheSettings


@pytest.fixture(autouse=True)
def findable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the jobs of this file importable in compiler processes."""
    root = Path(__file__).resolve().parents[3]
    monkeypatch.setenv("PYTHONPATH", f"{root}:{os.environ.get('PYTHONPATH', '')}")


def die(_: bytes) -> bytes:
    """A job that kills its process."""
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def sleep(data: bytes) -> bytes:
    """A job that exceeds the time limit."""
    time.sleep(float(data))
    return data


def complain(_: bytes) -> bytes:
    """A job that fails and prints."""
    print("to nobody")
    raise ValueError("a defect")


def echo(data: bytes) -> bytes:
    """A job that succeeds after printing to standard output."""
    print("noise", flush=True)
    return data + str(os.getpid()).encode()


def test_binaries_for_devices_that_are_not_here(tmp_path: Path, forker: Forker) -> None:
    kernel = add_kernel()
    archs = ("sm_80", "sm_90", "sm_100")
    jobs = [job_of(kernel, tmp_path, arch, config) for arch in archs for config in (0, 1)]
    stats, store = CompileStats(), MemoryStore()
    binaries = compile_all(jobs, store, Workers(max_workers=2, forker=forker), stats)
    assert (stats.reused, stats.compiled) == (0, 6)
    for job, binary in zip(jobs, binaries, strict=True):
        facts = binary.facts
        assert binary.image[:4] == b"\x7fELF"
        assert f".target sm_{job.capability}" in binary.assembly
        assert f".entry {facts.symbol}(" in binary.assembly
        assert binary.target == f"cuda:sm_{job.capability}"
        assert facts.registers is not None
        assert 0 < facts.registers < 256
        assert facts.local_bytes == 0
    assert [b.facts.num_warps for b in binaries] == [4, 2] * 3
    assert len({b.image for b in binaries}) >= 3

    again = compile_all(jobs, store, Workers(max_workers=2, forker=forker), stats)
    assert again == binaries
    assert (stats.reused, stats.compiled) == (6, 6)


def test_registers_and_spills_are_what_the_assembler_says(tmp_path: Path, forker: Forker) -> None:
    """With few registers allowed, a kernel with many live values spills; ptxas reports the same numbers."""
    terms = "\n".join(f"    v{i} = tl.load(x_ptr + at + {i} * BLOCK)" for i in range(40))
    total = "\n".join(f"    tl.store(x_ptr + at + {i} * BLOCK, v{39 - i} * v{i})" for i in range(40))
    source = (
        f"@triton.jit\ndef much(x_ptr, n, BLOCK: tl.constexpr):\n    at = tl.arange(0, BLOCK)\n{terms}\n"
        f"    tl.debug_barrier()\n{total}\n"
    )
    clauses = CLAUSES.replace("stages(1)", "stages(1) options(maxnreg = 32)").replace(
        "BLOCK = 128", "BLOCK = 256"
    )
    kernel = kernel_of(PARAMS, clauses, source, entry="much")
    [binary] = compile_all([job_of(kernel, tmp_path)], MemoryStore(), Workers(forker=forker))
    from triton.backends.nvidia.compiler import get_ptxas

    assembly = tmp_path / "much.ptx"
    assembly.write_text(binary.assembly)
    report = subprocess.run(
        [get_ptxas(90).path, "-v", "-lineinfo", "--gpu-name=sm_90a", str(assembly), "-o", str(tmp_path / "out")],
        capture_output=True, text=True, check=True,
    ).stderr  # fmt: skip
    assert f"Used {binary.facts.registers} registers" in report
    assert f"{binary.facts.local_bytes} bytes stack frame" in report
    assert binary.facts.local_bytes is not None
    assert binary.facts.local_bytes > 0


def test_a_refused_kernel_names_itself_its_config_and_its_line(tmp_path: Path, forker: Forker) -> None:
    kernel = kernel_of(PARAMS, CLAUSES, BROKEN, entry="broken", name="triton_broken")
    good = add_kernel()
    stats, store = CompileStats(), MemoryStore()
    with pytest.raises(CompileError) as caught:
        compile_all([job_of(kernel, tmp_path), job_of(good, tmp_path)], store, Workers(forker=forker), stats)
    message = str(caught.value)
    assert caught.value.code == "TR201"
    assert "'triton_broken' with config {BLOCK = 128} warps(4) stages(1) for sm_90, line 8" in message
    assert "tl.store(x_ptr + at, x.no_such_thing)" in message
    assert caught.value.hint
    # the other job was not lost
    assert stats.compiled == 1
    compile_all([job_of(good, tmp_path)], store, Workers(forker=forker), stats)
    assert stats.reused == 1


@pytest.mark.parametrize(
    ("source", "entry", "code", "message"),
    [
        ("def f(:\n    pass\n", "f", "TR104", r"SyntaxError: .*\n  line 3: def f\(:"),
        (
            "import no_such_module_anywhere\n",
            "f",
            "TR104",
            r"ModuleNotFoundError: .*\n  line 3: import no_such",
        ),
        ("x = 1\n", "f", "TR105", "has no function 'f'"),
        ("def f():\n    pass\n", "f", "TR105", "has 'f' as builtins.function"),
        (
            "@triton.jit\ndef f(a):\n    pass\n",
            "f",
            "TR102",
            r"'f' takes \(a\), the definition says \(x_ptr, n, BLOCK\)",
        ),
    ],
)
def test_sources_that_do_not_load(source: str, entry: str, code: str, message: str, tmp_path: Path) -> None:
    kernel = kernel_of(PARAMS, CLAUSES, source, entry=entry, name="odd")
    with pytest.raises(KernelError, match=message) as caught:
        compile_job(job_of(kernel, tmp_path).to_bytes())
    assert caught.value.code == code
    assert "'odd'" in str(caught.value)


@pytest.mark.parametrize(
    "target",
    [ir.Target(device=ir.CPU), cuda("sm_60"), cuda(""), ir.Target(device=ir.Device("xpu"), arch="sm_90")],
)
def test_targets_that_nothing_is_compiled_for(target: ir.Target, tmp_path: Path) -> None:
    kernel = add_kernel()
    with pytest.raises(CompileError) as caught:
        make_job(kernel, kernel.configs[0], target, str(tmp_path))
    assert caught.value.code == "TR202"


def test_keys_say_all_that_decides_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = add_kernel()
    job = job_of(kernel, tmp_path)
    assert job.key == job_of(add_kernel("other_name"), tmp_path / "elsewhere").key
    assert CompileJob.from_bytes(job.to_bytes()) == job
    assert job.key not in {job_of(kernel, tmp_path, "sm_80").key, job_of(kernel, tmp_path, config=1).key}
    monkeypatch.setenv("TRITON_F32_DEFAULT", "ieee")
    assert job.key != job_of(kernel, tmp_path).key


def test_a_stored_binary_that_is_damaged_is_compiled_again(tmp_path: Path, forker: Forker) -> None:
    job = job_of(add_kernel(), tmp_path)
    store, stats = MemoryStore(), CompileStats()
    [binary] = compile_all([job], store, Workers(forker=forker), stats)
    data = binary_to_bytes(binary)
    assert binary_from_bytes(data) == binary
    for damaged in (b"", data[:100], data[:-1], data.replace(b"ELF", b"FLE", 1)):
        with pytest.raises(ValueError, match="damaged"):
            binary_from_bytes(damaged)
    store.put(job.key, data[:-1])
    with pytest.warns(RuntimeWarning, match="compiled again"):
        assert compile_all([job], store, Workers(forker=forker), stats) == [binary]
    assert (stats.reused, stats.compiled) == (0, 2)


def test_the_pool_survives_whatever_its_processes_do() -> None:
    with WorkerPool(2, timeout=60) as pool:
        first = pool.submit(echo, b"hello ").result()
        with pytest.raises(WorkerDied, match="status -9"):
            pool.submit(die, b"").result()
        with pytest.raises(RuntimeError, match="a defect"):
            pool.submit(complain, b"").result()
        second = pool.submit(echo, b"hello ").result()
        assert first.startswith(b"hello ")
        assert second.startswith(b"hello ")
        # a new process
        assert first != second
        with pytest.raises(TypeError, match="bytes"):
            pool.submit(echo, "text")
        pids = pool.pids()
        assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_job_that_takes_too_long_is_stopped() -> None:
    with WorkerPool(1, timeout=1.0) as pool, pytest.raises(TimeoutError):
        pool.submit(sleep, b"30").result()


class Dying(Executor):
    """An executor whose process dies during the first jobs."""

    def __init__(self, deaths: int) -> None:
        self.deaths = deaths

    # Any: as in the standard library
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self.deaths:
            self.deaths -= 1
            future.set_exception(BrokenProcessPool("killed"))
        else:
            future.set_result(fn(*args))
        return future


def test_a_job_whose_process_died_is_run_once_more(tmp_path: Path) -> None:
    job, stats = job_of(add_kernel(), tmp_path), CompileStats()
    with pytest.warns(RuntimeWarning, match="compiling kernel 'add' again: killed"):
        compile_all([job], MemoryStore(), Workers(executor=Dying(1)), stats)
    assert (stats.compiled, stats.retried) == (1, 1)
    with pytest.warns(RuntimeWarning, match="again"), pytest.raises(CompileError) as caught:
        compile_all([job], MemoryStore(), Workers(executor=Dying(2)), stats)
    assert caught.value.code == "TR203"
    assert "'add'" in str(caught.value)


@pytest.mark.parametrize("make", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_compiles(make: type[Executor], tmp_path: Path, forker: Forker) -> None:
    """Results do not depend on the number or the location of workers."""
    kernel = add_kernel()
    jobs = [job_of(kernel, tmp_path, config=config) for config in (0, 1)]
    options: dict[str, Any] = {"max_workers": 2}  # Any: keywords of two classes
    if make is ProcessPoolExecutor:
        import multiprocessing

        options["mp_context"] = multiprocessing.get_context("spawn")
    with make(**options) as executor:
        there = compile_all(jobs, MemoryStore(), Workers(executor=executor))
    assert there == compile_all(jobs, MemoryStore(), Workers(forker=forker))


def test_one_and_many_processes_make_the_same(tmp_path: Path, forker: Forker) -> None:
    kernels = [
        kernel_of(PARAMS, CLAUSES, BROKEN.replace("x.no_such_thing", f"x + {i}"), entry="broken")
        for i in range(4)
    ]
    jobs = [job_of(k, tmp_path) for k in (*kernels, add_kernel())]
    one, many = (compile_all(jobs, MemoryStore(), Workers(max_workers=n, forker=forker)) for n in (1, 4))
    assert one == many
    assert len({binary.image for binary in one}) == len(jobs)


def test_each_job_has_its_result(tmp_path: Path) -> None:
    """A refused kernel is compiled only once, too."""
    broken, good = kernel_of(PARAMS, CLAUSES, BROKEN, entry="broken"), add_kernel()
    settings = Settings(
        cache=CacheSettings(folder=tmp_path / "cache", fallback=tmp_path / "fallback"), jobs=1
    )
    driver = FakeDriver(needs_binary=True)
    runtime = TritonRuntime(settings=settings, options=TritonOptions(driver=driver))
    for _ in range(2):
        with pytest.raises(CompileError, match="TR201"):
            runtime.load_all([broken, good], cuda("sm_90"))
    assert (runtime.stats.compiled, runtime.stats.reused) == (1, 1)
    [first, second] = compile_each([job_of(broken, tmp_path), job_of(good, tmp_path)], MemoryStore())
    assert isinstance(first, CompileError)
    assert not isinstance(second, Exception)


def test_reading_a_kernel_early_waits(tmp_path: Path) -> None:
    settings = Settings(
        cache=CacheSettings(folder=tmp_path / "cache", fallback=tmp_path / "fallback"), jobs=1
    )
    driver = FakeDriver(needs_binary=True)
    runtime = TritonRuntime(settings=settings, options=TritonOptions(driver=driver))
    loading = runtime.start([add_kernel("one"), add_kernel("two")], cuda("sm_90"))
    assert not loading.done()
    assert [*loading] == ["one", "two"]
    loading["two"](None, None, None, 5)
    assert loading.done()
    assert [r.kernel.name for r in driver.launches] == ["two"]
    broken = runtime.start([kernel_of(PARAMS, CLAUSES, BROKEN, entry="broken")], cuda("sm_90"))
    with pytest.raises(CompileError, match="TR201"):
        broken["k"]


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    """Also if it is killed."""
    script = (
        "import time\n"
        "from triton_runtime.compile.pool import WorkerPool\n"
        "from triton_runtime.compile.binary import binary_to_bytes\n"
        "import packages.triton_runtime.tests.test_tr_compile as t\n"
        "pool = WorkerPool(1)\n"
        "print(pool.submit(t.echo, b'pid ').result().decode(), flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline().split()[1])
        os.kill(pid, 0)
        parent.kill()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and Path(f"/proc/{pid}/cmdline").exists():
        if "triton_runtime" not in Path(f"/proc/{pid}/cmdline").read_text():
            # an unreaped zombie has none
            break
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{pid}/cmdline").exists()


def test_the_runtime_keeps_what_it_compiled_on_disk(tmp_path: Path) -> None:
    settings = Settings(
        cache=CacheSettings(folder=tmp_path / "cache", fallback=tmp_path / "fallback"), jobs=2
    )
    first, second = (TritonRuntime(settings=settings, options=TritonOptions()) for _ in range(2))
    kernels = [
        add_kernel("one"),
        kernel_of(PARAMS, CLAUSES, BROKEN.replace("x.no_such_thing", "x + n"), entry="broken"),
    ]
    binaries = first.compile(kernels, cuda("sm_90"))
    assert set(binaries) == {"one", "k"}
    assert (first.stats.reused, first.stats.compiled) == (0, 2)
    assert second.compile(kernels, cuda("sm_90")) == binaries
    assert (second.stats.reused, second.stats.compiled) == (2, 0)
