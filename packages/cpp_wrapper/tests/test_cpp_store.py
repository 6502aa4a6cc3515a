"""The cache on disk: damage, several processes, death in the middle, directories that cannot be written."""

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

from cpp_wrapper import CacheError, CppKernelRuntime, CppOptions
from cpp_wrapper.kernels.store import Store
from cpp_wrapper.settings import Settings
from wrapper_ir.kernels import CppKernel
from wrapper_ir.program import Target

if TYPE_CHECKING:
    from packages.cpp_wrapper.tests.conftest import Bench, Scale


def run(bench: Bench, kernel: CppKernel) -> float:
    out = torch.empty(1)
    bench.runtime().load(kernel, Target())(torch.ones(1), out, 1)
    return out.item()


def entries(bench: Bench) -> list[Path]:
    found = bench.settings.cache_dir.glob("cpp/*/kernels/*.json")
    return [path for path in found if json.loads(path.read_text())["name"] != "launcher"]


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
    assert run(bench, scale("k", 3)) == 3
    assert len(bench.kernel_runs()) == 2
    assert run(bench, scale("k", 3)) == 3
    assert len(bench.kernel_runs()) == 2


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "7", '{"library": 3, "symbol": "x"}', '{"library": "../../x.so", "symbol": "x"}',
     '{"library": "' + "0" * 64 + '.so", "symbol": "x"}'],
)  # fmt: skip
def test_damaged_entry_counts_as_absent(bench: Bench, scale: Scale, text: str) -> None:
    run(bench, scale("k", 3))
    (entry,) = entries(bench)
    entry.write_text(text)
    assert run(bench, scale("k", 3)) == 3
    assert json.loads(entry.read_text())["name"] == "k"


def test_entry_with_a_symbol_that_is_not_there(bench: Bench, scale: Scale) -> None:
    """The library is whole but does not hold the kernel: it is built again, once."""
    run(bench, scale("k", 3))
    (entry,) = entries(bench)
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "symbol": "elsewhere"}))
    assert run(bench, scale("k", 3)) == 3
    assert len(bench.kernel_runs()) == 2


def test_damaged_launcher_is_built_again(bench: Bench, scale: Scale) -> None:
    run(bench, scale("k", 3))
    libraries = set(bench.settings.cache_dir.glob("cpp/*/libraries/*.so"))
    (launcher,) = libraries - set(bench.libraries())
    launcher.unlink()
    launcher.write_bytes(b"\x7fELF")
    assert run(bench, scale("k", 3)) == 3
    assert sum("launcher.cpp" in line for line in bench.runs()) == 1


def load_in_process(settings: Settings, kernels: list[CppKernel], crowd: int) -> list[float]:
    """Waits until `crowd` processes are here, then loads and runs."""
    (settings.fallback_dir.parent / f"ready-{os.getpid()}").touch()
    deadline = time.monotonic() + 120
    while len(list(settings.fallback_dir.parent.glob("ready-*"))) < crowd and time.monotonic() < deadline:
        time.sleep(0.01)
    loaded = CppKernelRuntime(settings=settings).load_all(kernels, Target())
    out = torch.empty(1)
    results = []
    for kernel in kernels:
        loaded[kernel.name](torch.ones(1), out, 1)
        results.append(out.item())
    return results


def test_many_processes_build_each_kernel_once(bench: Bench, scale: Scale) -> None:
    """Five processes want overlapping sets of kernels at the same moment, and the launcher too."""
    firsts = (0, 0, 4, 4, 8)
    sets = [[scale(f"k{i}", i) for i in range(first, first + 8)] for first in firsts]
    fresh = replace(bench.settings, cache_dir=bench.root / "fresh")
    with multiprocessing.get_context("spawn").Pool(len(firsts)) as pool:
        results = pool.starmap(
            load_in_process, [(fresh, kernels, len(firsts)) for kernels in sets], chunksize=1
        )
    assert results == [[float(i) for i in range(first, first + 8)] for first in firsts]
    built = [symbol for path in fresh.cache_dir.glob("cpp/*/libraries/*.cpp") for symbol in symbols(path)]
    assert len(built) == len(set(built)) == 16, "no kernel was compiled twice"
    assert sum("launcher.cpp" in line for line in bench.runs()) == 1


def symbols(source: Path) -> list[str]:
    lines = source.read_text().splitlines()
    return [line for line in lines if line.startswith("void wir_")]


VICTIM = """
    import sys, pathlib
    from cpp_wrapper import CppKernelRuntime
    from cpp_wrapper.settings import Settings
    from wrapper_ir.kernels import *
    from wrapper_ir.program import Target
    root = pathlib.Path(sys.argv[1])
    settings = Settings(cache_dir=root / "cache", fallback_dir=root / "fallback", compiler=sys.argv[2], jobs=1)
    source = 'extern "C" void kernel() {}'
    kernels = [CppKernel(name=f"k{i}", params=(), source=source + f" // {i}", entry="kernel") for i in range(3)]
    CppKernelRuntime(settings=settings).load_all(kernels, Target())
    print("loaded", flush=True)
"""


@pytest.mark.parametrize("moment", ["compiling", "library-written"])
def test_killed_builder_leaves_nothing_that_is_loaded(bench: Bench, moment: str) -> None:
    """SIGKILL while the compiler runs, or after it wrote half of its output; the next process builds anew."""
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
    assert entries(bench) == bench.libraries() == []
    (bench.root / "wait").unlink()
    again = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert again.stdout == "loaded\n", again.stderr
    assert len(entries(bench)) == 3


def test_what_a_killed_builder_left_is_removed_a_day_later(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old, new = tmp_path / "work" / "old", tmp_path / "work" / "new"
    for folder in (old, new):
        folder.mkdir(parents=True)
        (folder / "kernels.so").write_bytes(b"half")
    past = time.time() - 2 * 24 * 3600
    os.utime(old, (past, past))
    with store.workspace() as work:
        assert work.is_dir()
        assert not old.exists()
        assert new.exists()
    assert not work.exists()


def test_locks_exclude_and_never_deadlock(tmp_path: Path) -> None:
    keys = [f"{i:064x}" for i in range(10)] + ["f" * 64]
    store = Store(tmp_path)
    with store.lock_some(keys[:4]) as first, store.lock_some(keys) as second:
        assert first == frozenset(keys[:4]) or first >= frozenset(keys[:4])
        assert not first & second
        with pytest.raises(CacheError, match="CPP303"):
            store.wait_for(keys[0], 0.05)
    with store.lock_some(keys) as third:
        assert third == frozenset(keys)


def test_unwritable_cache_falls_back_with_a_warning(bench: Bench, scale: Scale) -> None:
    """A file where the directory should be: not even the superuser can write there."""
    blocked = bench.root / "file"
    blocked.write_text("")
    settings = replace(bench.settings, cache_dir=blocked / "cache")
    runtime = CppKernelRuntime(settings=settings)
    with pytest.warns(RuntimeWarning, match=r"CPP301.*cannot be written.*building in .*fallback") as caught:
        runtime.load(scale("k"), Target())
    assert len(caught) <= 2
    assert settings.fallback_dir.stat().st_mode & 0o077 == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runtime.load(scale("k"), Target())
    assert len(bench.kernel_runs()) == 1, "the second time the fallback is read, in silence"


def test_read_only_cache_is_still_read(bench: Bench, scale: Scale, monkeypatch: pytest.MonkeyPatch) -> None:
    run(bench, scale("k", 4))
    monkeypatch.setattr("cpp_wrapper.kernels.location._try_folder", lambda folder: OSError("read-only"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(bench, scale("k", 4)) == 4
    with pytest.raises(CacheError, match=r"CPP301.*read-only(.|\n)*WRAPPER_IR_CACHE_DIR"):
        run(bench, scale("new", 5))


def test_fallback_that_others_may_write_is_refused(bench: Bench, scale: Scale) -> None:
    blocked = bench.root / "file"
    blocked.write_text("")
    settings = replace(bench.settings, cache_dir=blocked / "cache")
    settings.fallback_dir.mkdir()
    settings.fallback_dir.chmod(0o777)
    with pytest.raises(CacheError, match=r"CPP301.*not this user's alone"):
        CppKernelRuntime(settings=settings, options=CppOptions()).load(scale("k"), Target())
