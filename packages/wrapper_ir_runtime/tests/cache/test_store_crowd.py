"""The store with concurrent processes: eight at once, processes killed at any moment, full and read-only
disks."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

PRELUDE = """
    import errno, hashlib, json, os, pathlib, random, shutil, signal, sys, time, warnings

    from wrapper_ir_runtime.cache import Cache, CacheSettings
    from wrapper_ir_runtime.cache.locks import lock, open_folder

    root = pathlib.Path(sys.argv[1])

    def Store(**settings):
        return Cache(CacheSettings(**settings)).store("test")

    def payload(key, size):
        "What belongs under a key, in any size: a seed and its repetition."
        seed = hashlib.sha256(key.encode()).digest()
        return seed * (size // 32)

    def fits(key, data):
        return data is None or (len(data) >= 32 and data == payload(key, len(data)))

    def crowd(count, work):
        "Runs work(i) in processes of its own, forked before any lock or thread; gives what they return."
        pids, pipes = [], []
        for i in range(count):
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    os.write(write, json.dumps(work(i)).encode())
                    status = 0
                finally:
                    os._exit(status)
            os.close(write)
            pids.append(pid)
            pipes.append(read)
        results = [json.loads(os.fdopen(pipe).read()) for pipe in pipes]
        assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids)
        return results
"""


def run(script: str, root: Path, *command: str) -> Any:  # Any: what the script prints as JSON
    """Runs a script with the prelude in a separate process."""
    text = textwrap.dedent(PRELUDE) + textwrap.dedent(script)
    done = subprocess.run(
        [*command, sys.executable, "-c", text, str(root)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_eight_processes_hammer_a_store_that_is_always_too_full(tmp_path: Path) -> None:
    found = run(
        """
        limit = 4_000_000
        def work(i):
            rng = random.Random(i)
            store = Store(folder=root, limit_bytes=limit, wait_seconds=5)
            end, wrong, made = time.monotonic() + 2.5, 0, 0
            warnings.simplefilter("error")
            while time.monotonic() < end:
                key = f"key {rng.randrange(120)}"
                size = 32 * rng.randrange(1, 4000)
                match rng.randrange(4):
                    case 0: store.put(key, payload(key, size))
                    case 1: wrong += not fits(key, store.make(key, lambda: payload(key, size)))
                    case 2 if rng.random() < 0.1: store.remove(key)
                    case _: wrong += not fits(key, store.get(key))
            counts = store.stats()
            return {"wrong": wrong, "hits": counts.hits, "evicted": counts.evicted, "damaged": counts.damaged,
                    "unwritten": counts.unwritten, "stored": counts.stored}
        results = crowd(8, work)
        total = {name: sum(r[name] for r in results) for name in results[0]}
        Cache(CacheSettings(folder=root, limit_bytes=limit)).shrink()  # what was replaced while others read it
        total["bytes"] = sum(p.stat().st_size for p in root.rglob("*") if p.is_file())
        total["temporary"] = len([*root.glob("1/work/*"), *root.glob("1/removed/*")])
        total["limit"] = limit
        print(json.dumps(total))
        """,
        tmp_path,
    )
    assert (found["wrong"], found["damaged"], found["unwritten"], found["temporary"]) == (0, 0, 0, 0)
    assert found["hits"] > 100
    assert found["stored"] > 100
    assert found["evicted"] > 20
    assert found["bytes"] < found["limit"] * (1 + 8 / 64) + 8 * 128_000


def test_eight_processes_make_each_entry_once(tmp_path: Path) -> None:
    makes = run(
        """
        log = os.open(root / "log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        def work(i):
            store = Store(folder=root / "cache", wait_seconds=30)
            keys = [f"key {k}" for k in range(24)]
            random.Random(i).shuffle(keys)
            for key in keys:
                def make():
                    os.write(log, f"{key}\\n".encode())
                    time.sleep(0.01)
                    return payload(key, 3200)
                assert fits(key, store.make(key, make))
            return store.stats().stored
        stored = crowd(8, work)
        print(json.dumps([sum(stored), sorted((root / "log").read_text().splitlines())]))
        """,
        tmp_path,
    )
    assert makes == [24, sorted(f"key {k}" for k in range(24))]


def test_processes_killed_at_any_moment_leave_only_whole_entries(tmp_path: Path) -> None:
    found = run(
        """
        rng = random.Random(7)
        warnings.simplefilter("error")
        keys = [f"key {k}" for k in range(8)]
        limit = 12_000_000
        def victim():
            store = Store(folder=root, limit_bytes=limit, wait_seconds=5)
            while True:
                key = rng.choice(keys)
                size = 32 * rng.randrange(1, 60_000)
                if rng.random() < 0.5:
                    store.put(key, payload(key, size))
                else:
                    with store.alone(key):
                        store.put(key, payload(key, size))
        checker = Store(folder=root, limit_bytes=limit, wait_seconds=2)
        wrong = present = cut = 0
        i = -1
        while (i := i + 1) < 100 or (cut <= 3 and i < 1000):
            rng.seed(i)
            pid = os.fork()
            if pid == 0:
                try:
                    victim()
                finally:
                    os._exit(1)
            time.sleep(random.Random(-i).uniform(0.001, 0.02) * (1 + i // 100))  # a busy machine is slower
            os.kill(pid, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
            left = list(root.glob("1/work/*"))
            cut += bool(left)
            for path in left:
                assert lock(open_folder(path), shared=False), "the dead hold no locks"
                shutil.rmtree(path)
            for key in keys:
                data = checker.get(key)
                wrong += not fits(key, data)
                present += data is not None
            with checker.alone(keys[i % 8]) as held:
                assert held, "the dead hold no locks"
        print(json.dumps({"wrong": wrong, "present": present, "cut": cut, "damaged": checker.stats().damaged}))
        """,
        tmp_path,
    )
    assert (found["wrong"], found["damaged"]) == (0, 0)
    assert found["present"] > 100
    assert found["cut"] > 3, "some died while writing"


def namespace() -> list[str]:
    """A command prefix for a process that may mount; skips where the system does not let us."""
    prefix = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        allowed = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("a small disk has to be mounted, and this system allows no user namespaces")
    return prefix


def test_full_disk_and_read_only_disk_give_the_fallback_and_one_warning(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    found = run(
        """
        import subprocess
        disk = root / "disk"
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=480k", "none", str(disk)], check=True)
        options = dict(folder=disk / "cache", fallback=root / "fallback", wait_seconds=2)
        result = {}
        def visit(name, first):
            store = Store(**options)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                keys = [f"key {first + i}" for i in range(8)]
                served = [store.make(k, lambda: payload(k, 128_000)) == payload(k, 128_000) for k in keys]
                served += [store.get(k) == payload(k, 128_000) for k in keys]
            counts = store.stats()
            result[name] = {"right": all(served), "warnings": [str(w.message) for w in seen],
                            "stored": counts.stored, "unwritten": counts.unwritten, "damaged": counts.damaged}
        visit("full", 0)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with Store(**options).ensure("files", lambda f: (f / "big").write_bytes(bytes(400_000))) as entry:
                result["folder"] = entry.folder.is_relative_to(root / "fallback")
            result["said"] = [str(w.message) for w in seen]
        result["temporary"] = [str(p) for p in disk.glob("cache/1/work/*")]
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        begin = time.monotonic()
        visit("read-only", 8)
        result["old"] = Store(**options).get("key 0") == payload("key 0", 128_000)
        result["seconds"] = time.monotonic() - begin
        subprocess.run(["mount", "-o", "remount,rw,size=8m", str(disk)], check=True)
        visit("room again", 16)
        print(json.dumps(result))
        """,
        tmp_path,
        *namespace(),
    )
    for name, stored, code, why in (
        ("full", 3, "WIR250", "is full (No space left on device)"),
        ("read-only", 0, "WIR251", "Read-only file system"),
    ):
        seen = found[name]
        assert seen["right"], name
        assert (seen["stored"], seen["unwritten"], seen["damaged"]) == (stored, 8 - stored, 0), name
        assert len(seen["warnings"]) == 1, name
        assert code in seen["warnings"][0]
        assert why in seen["warnings"][0]
    assert found["folder"]
    assert "WIR250" in found["said"][0]
    assert found["temporary"] == []
    assert found["old"], "a read-only folder is still read"
    assert found["seconds"] < 2, "nobody waits for locks that cannot be had"
    assert found["room again"] == {"right": True, "warnings": [], "stored": 8, "unwritten": 0, "damaged": 0}
