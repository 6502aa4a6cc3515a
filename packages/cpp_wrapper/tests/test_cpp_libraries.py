"""Libraries in the cache: damage, several processes, killed builders, unwritable folders."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from cpp_wrapper import CppKernelRuntime, CppOptions
from cpp_wrapper.kernels.libraries import Libraries
from cpp_wrapper.kernels.toolchain import find_toolchain, kernel_recipe
from cpp_wrapper.settings import Settings
from wrapper_ir import ir
from wrapper_ir.errors import StoreWarning
from wrapper_ir_runtime.cache import open_cache
from wrapper_ir_runtime.cache.manifest import MANIFEST, seal

if TYPE_CHECKING:
    from packages.cpp_wrapper.tests.conftest import Bench, Scale


def run(bench: Bench, kernel: ir.CppKernel) -> float:
    out = torch.empty(1)
    bench.runtime().load(kernel, ir.Target())(torch.ones(1), out, 1)
    return out.item()


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "absent", "swapped"])
def test_damaged_library_is_built_again(bench: Bench, scale: Scale, damage: str) -> None:
    run(bench, scale("k", 3))
    (library,) = bench.libraries()
    data = library.read_bytes()
    flipped = data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]
    library.unlink()
    if damage != "absent":
        library.write_bytes(
            {"truncated": data[:-100], "flipped": flipped, "empty": b"", "swapped": b"\x7fELF"}[damage]
        )
    with pytest.warns(StoreWarning, match=r"WIR254.*kernels\.so"):
        assert run(bench, scale("k", 3)) == 3
    assert len(bench.kernel_runs()) == 2
    assert run(bench, scale("k", 3)) == 3
    assert len(bench.kernel_runs()) == 2


def rewrite_note(bench: Bench, text: str) -> None:
    """Writes a note as if the package had, its manifest included."""
    (note,) = bench.notes()
    note.write_text(text)
    (note.parent / MANIFEST).unlink()
    seal(note.parent, note.parent.name)


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "null", "7", '{"library": 3, "symbol": "x"}', '{"library": "../../x.so", "symbol": "x"}',
     '{"library": "library", "symbol": "x; y"}'],
)  # fmt: skip
def test_a_note_of_another_form_counts_as_absent(bench: Bench, scale: Scale, text: str) -> None:
    run(bench, scale("k", 3))
    (note,) = bench.notes()
    rewrite_note(bench, text)
    assert run(bench, scale("k", 3)) == 3
    assert json.loads(note.read_text())["name"] == "k"


def test_a_note_with_a_symbol_that_is_not_there(bench: Bench, scale: Scale) -> None:
    """The library is intact but lacks the kernel: it is rebuilt, once."""
    run(bench, scale("k", 3))
    (note,) = bench.notes()
    rewrite_note(bench, json.dumps({**json.loads(note.read_text()), "symbol": "elsewhere"}))
    assert run(bench, scale("k", 3)) == 3
    assert len(bench.kernel_runs()) == 2


def test_a_library_that_was_evicted_is_built_again(bench: Bench, scale: Scale) -> None:
    run(bench, scale("k", 3))
    (library,) = bench.libraries()
    open_cache(bench.settings.cache).trim(namespace="cpp", to=0)
    assert not library.exists()
    assert run(bench, scale("k", 3)) == 3
    assert len(bench.kernel_runs()) == 2


def test_damaged_launcher_is_built_again(bench: Bench, scale: Scale) -> None:
    run(bench, scale("k", 3))
    (launcher,) = bench.cache_folder.glob("1/launchers/*/*/launcher.so")
    launcher.unlink()
    launcher.write_bytes(b"\x7fELF")
    with pytest.warns(StoreWarning, match=r"WIR254.*launcher\.so"):
        assert run(bench, scale("k", 3)) == 3
    assert sum("launcher.cpp" in line for line in bench.runs()) == 1


def with_cache(bench: Bench, folder: Path) -> Settings:
    return replace(bench.settings, cache=replace(bench.settings.cache, folder=folder))


def load_in_process(settings: Settings, kernels: list[ir.CppKernel], crowd: int) -> list[float]:
    """Waits until `crowd` processes are here, then loads and runs."""
    assert settings.cache.fallback is not None
    meeting = settings.cache.fallback.parent
    (meeting / f"ready-{os.getpid()}").touch()
    deadline = time.monotonic() + 120
    while len(list(meeting.glob("ready-*"))) < crowd and time.monotonic() < deadline:
        time.sleep(0.01)
    loaded = CppKernelRuntime(settings=settings).load_all(kernels, ir.Target())
    out = torch.empty(1)
    results = []
    for kernel in kernels:
        loaded[kernel.name](torch.ones(1), out, 1)
        results.append(out.item())
    return results


@pytest.mark.slow
def test_many_processes_build_each_kernel_once(bench: Bench, scale: Scale) -> None:
    """Five processes request overlapping sets of kernels, and the launcher, at the same time."""
    firsts = (0, 0, 4, 4, 8)
    sets = [[scale(f"k{i}", i) for i in range(first, first + 8)] for first in firsts]
    fresh = with_cache(bench, bench.root / "fresh")
    with multiprocessing.get_context("spawn").Pool(len(firsts)) as pool:
        results = pool.starmap(
            load_in_process, [(fresh, kernels, len(firsts)) for kernels in sets], chunksize=1
        )
    assert results == [[float(i) for i in range(first, first + 8)] for first in firsts]
    built = [
        symbol for path in (bench.root / "fresh").glob("1/cpp/*/*/kernels.cpp") for symbol in symbols(path)
    ]
    assert len(built) == len(set(built)) == 16, "no kernel was compiled twice"
    assert sum("launcher.cpp" in line for line in bench.runs()) == 1


def symbols(source: Path) -> list[str]:
    lines = source.read_text().splitlines()
    return [line for line in lines if line.startswith("void wir_")]


VICTIM = """
    import sys, pathlib
    from cpp_wrapper import CppKernelRuntime
    from cpp_wrapper.settings import Settings
    from wrapper_ir.ir import CppKernel
    from wrapper_ir.ir.program import Target
    from wrapper_ir_runtime.cache import CacheSettings
    root = pathlib.Path(sys.argv[1])
    cache = CacheSettings(folder=root / "cache", fallback=root / "fallback")
    settings = Settings(cache=cache, compiler=sys.argv[2], jobs=1)
    source = 'extern "C" void kernel() {}'
    kernels = [CppKernel(name=f"k{i}", params=(), source=source + f" // {i}", entry="kernel") for i in range(3)]
    CppKernelRuntime(settings=settings).load_all(kernels, Target())
    print("loaded", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["compiling", "library-written"])
def test_killed_builder_leaves_nothing_that_is_loaded(bench: Bench, moment: str) -> None:
    """SIGKILL while the compiler runs, or after it wrote half of its output; the next process rebuilds."""
    write = (
        'for a; do [ "$p" = -o ] && printf "\\177ELFhalf" > "$a"; p=$a; done'
        if moment == "library-written"
        else ":"
    )
    slow = bench.root / "slow-g++"
    slow.write_text(
        f'#!/bin/sh\ncase "$1" in -v) exec g++ -v;; esac\n{write}\ntouch "{bench.root}/started"\n'
        f'while [ -e "{bench.root}/wait" ]; do sleep 0.05; done\nexec g++ "$@"\n'
    )
    slow.chmod(0o755)
    (bench.root / "wait").touch()
    command = [sys.executable, "-c", textwrap.dedent(VICTIM), str(bench.root), str(slow)]
    victim = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (bench.root / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(victim.pid, signal.SIGKILL)
    assert victim.wait() == -signal.SIGKILL
    assert bench.notes() == bench.libraries() == []
    (bench.root / "wait").unlink()
    again = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert again.stdout == "loaded\n", again.stderr
    assert len(bench.notes()) == 3


@pytest.mark.slow
def test_kernels_that_another_builds_for_too_long_are_built_twice(bench: Bench, scale: Scale) -> None:
    first = Libraries(open_cache(bench.settings.cache), kernel_recipe(
        find_toolchain(bench.settings.compiler), (), CppOptions()).fingerprint)  # fmt: skip
    keys = [f"{number:064x}" for number in range(600)]  # of every shard
    with first.alone_some(keys) as held:
        assert len(held) == len(keys)
        loaded = bench.runtime(CppOptions(timeout=5)).load(scale("k", 3), ir.Target())
    out = torch.empty(1)
    loaded(torch.ones(1), out, 1)
    assert out.item() == 3


def test_unwritable_cache_falls_back_with_a_warning(bench: Bench, scale: Scale) -> None:
    """A file where the directory should be: not even the superuser can write there."""
    blocked = bench.root / "file"
    blocked.write_text("")
    settings = with_cache(bench, blocked / "cache")
    runtime = CppKernelRuntime(settings=settings)
    with pytest.warns(StoreWarning, match=r"WIR251.*cannot be written.*using .*fallback") as caught:
        runtime.load(scale("k"), ir.Target())
    assert len(caught) == 1
    assert (bench.root / "fallback").stat().st_mode & 0o077 == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runtime.load(scale("k"), ir.Target())
    assert len(bench.kernel_runs()) == 1, "the second time the fallback is read, in silence"


def test_fallback_that_others_may_write_is_not_used(bench: Bench, scale: Scale) -> None:
    blocked = bench.root / "file"
    blocked.write_text("")
    (bench.root / "fallback").mkdir()
    (bench.root / "fallback").chmod(0o777)
    runtime = CppKernelRuntime(settings=with_cache(bench, blocked / "cache"))
    with pytest.warns(StoreWarning, match=r"WIR251.*using .*wrapper-ir-"):
        runtime.load(scale("k"), ir.Target())
    assert list((bench.root / "fallback").iterdir()) == []


def test_a_compiler_that_finds_the_disk_full_goes_to_the_fallback(bench: Bench, scale: Scale) -> None:
    full = bench.root / "full-g++"
    full.write_text(
        f'#!/bin/sh\ncase "$*" in *-o\\ {bench.cache_folder}*)\n'
        "  echo 'kernels.cpp: fatal error: error writing to kernels.s: No space left on device' >&2; exit 1;;\nesac\n"
        'exec g++ "$@"\n'
    )
    full.chmod(0o755)
    runtime = CppKernelRuntime(settings=replace(bench.settings, compiler=str(full)))
    with pytest.warns(StoreWarning, match=r"WIR250.*is full.*fallback"):
        runtime.load(scale("k"), ir.Target())
    assert bench.libraries() == []
