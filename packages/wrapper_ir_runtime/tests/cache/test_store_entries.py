"""The store in one process: it returns exactly the stored entries, and survives any state of the disk."""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from packages.wrapper_ir_runtime.tests.cache.store_case import folder_of, settings, store_in, write_two

from wrapper_ir.errors import StoreWarning
from wrapper_ir_runtime.cache import Cache, Entry
from wrapper_ir_runtime.cache.manifest import MANIFEST


def test_what_was_put_is_found_by_namespace_and_key(tmp_path: Path) -> None:
    cache = Cache(settings(tmp_path))
    store, other = cache.store("test"), cache.store("other")
    assert store.get("a") is None
    store.put("a", b"kernel")
    other.put("a", b"record")
    store.put("empty", b"")
    assert (store.get("a"), other.get("a"), store.get("empty")) == (b"kernel", b"record", b"")
    assert other.get("empty") is None
    store.put("a", b"newer")
    again = store_in(tmp_path)
    assert again.get("a") == b"newer"
    assert (again.stats().hits, again.stats().misses, again.stats().stored) == (1, 0, 0)
    assert (store.stats().hits, store.stats().misses, store.stats().stored) == (2, 1, 3)
    again.remove("a")
    assert store.get("a") is None
    assert other.get("a") == b"record"
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0, "what we load is nobody else's to write"
    assert not [*(tmp_path / "cache/1/work").iterdir(), *(tmp_path / "cache/1/removed").iterdir()]


def test_keys_may_hold_any_text(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for number, key in enumerate(("", "../../x", "\0", "\udc80", "x" * 100_000)):
        store.put(key, bytes([number]))
        assert store.get(key) == bytes([number])


def test_entries_of_files_are_written_once_and_found_whole(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    assert store.find("k") is None
    with store.ensure("k", write_two) as entry:
        assert entry.folder == folder_of(tmp_path, "k") == store.folder_of("k")
        assert entry.read("a.txt") == b"alpha" * 1000
    with store.ensure("k", lambda folder: pytest.fail("it is there")) as entry:
        assert (entry.folder / "below/b.txt").read_text() == "beta"
    with store.add("k", lambda folder: (folder / "other").write_text("")) as entry:
        assert sorted(p.name for p in entry.folder.iterdir()) == ["a.txt", "below", MANIFEST], (
            "the first stays"
        )


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path) -> None:
    store = store_in(tmp_path)

    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.ensure("k", fail)
    assert store.find("k") is None
    assert not list((tmp_path / "cache/1/work").iterdir())
    with pytest.raises(ZeroDivisionError):
        store.make("k", lambda: bytes(1 // 0))
    assert store.make("k", lambda: b"second") == b"second"


def _rewrite(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def _manifest(**changes: object) -> Callable[[Path], object]:
    return _rewrite(MANIFEST, lambda data: json.dumps({**json.loads(data), **changes}).encode())


DAMAGE: list[tuple[Callable[[Path], object], str]] = [
    (_rewrite("data", lambda data: data[:-1]), "data holds 10999 of 11000 bytes"),
    (_rewrite("data", lambda data: b""), "data holds 0 of 11000 bytes"),
    (
        _rewrite("data", lambda data: data[:-50] + bytes([data[-50] ^ 1]) + data[-49:]),
        "does not fit its hash",
    ),
    (lambda folder: (folder / "data").unlink(), "No such file|data is missing"),
    (lambda folder: (folder / MANIFEST).unlink(), "No such file"),
    (_rewrite(MANIFEST, lambda data: b""), "not JSON"),
    (_rewrite(MANIFEST, lambda data: data[:30]), "not JSON"),
    (_rewrite(MANIFEST, lambda data: b"[" * 100_000), "not JSON"),
    (_rewrite(MANIFEST, lambda data: b"[1]"), "another form"),
    (_manifest(files={"data": 3}), "another form"),
    (_manifest(files={"../data": [1, "0"]}), "names '../data'"),
    (_manifest(files={"/etc/passwd": [1, "0"]}), "names '/etc/passwd'"),
    (_manifest(files={}), "has no file data"),
    (_manifest(key="0" * 64), "another key"),
    (_manifest(format=9), "format is 9"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGE)
def test_damaged_entries_are_set_aside_and_never_served(
    tmp_path: Path, damage: Callable[[Path], object], said: str
) -> None:
    store = store_in(tmp_path)
    store.put("k", b"right payload"[:11] * 1000)
    damage(folder_of(tmp_path, "k"))
    with pytest.warns(StoreWarning, match=rf"WIR254.*set aside as.*({said})"):
        assert store.get("k") is None
    assert (store.stats().damaged, store.stats().misses) == (1, 1)
    assert not folder_of(tmp_path, "k").exists()
    assert len(list((tmp_path / "cache/1/damaged").iterdir())) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.make("k", lambda: b"made again") == b"made again"
        assert store.get("k") == b"made again"


@pytest.mark.parametrize("file", ["a.txt", "below/b.txt"])
@pytest.mark.parametrize("how", ["changed", "cut", "gone"])
def test_damaged_files_are_written_again(tmp_path: Path, file: str, how: str) -> None:
    store = store_in(tmp_path)
    store.ensure("k", write_two).close()
    path = folder_of(tmp_path, "k") / file
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[1:] + (b"?" if how == "changed" else b""))
    with pytest.warns(StoreWarning, match=r"WIR254.*\.txt"), store.ensure("k", write_two) as entry:
        assert entry.read(file).startswith((b"alpha", b"beta"))


def test_an_entry_under_another_name_is_not_believed(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.put("k", b"1")
    folder_of(tmp_path, "other").parent.mkdir(parents=True, exist_ok=True)
    folder_of(tmp_path, "k").rename(folder_of(tmp_path, "other"))
    with pytest.warns(StoreWarning, match="another key"):
        assert store.get("other") is None


def test_an_entry_that_its_user_refuses_is_set_aside(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    entry = store.ensure("k", write_two)
    with pytest.warns(StoreWarning, match=r"WIR254.*of another version"):
        store.refuse(entry, "it is of another version")
    assert store.stats().damaged == 1
    assert store.find("k") is None


def test_longest_unused_goes_first_over_all_namespaces(tmp_path: Path) -> None:
    cache = Cache(replace(settings(tmp_path), limit_bytes=1_000_000))
    store = cache.store("test")
    for i in range(10):
        store.put(f"k{i}", bytes(60_000))
        os.utime(folder_of(tmp_path, f"k{i}"), (i, i))
    assert store.get("k0") is not None  # now the youngest
    for i in range(6):
        cache.store("other").put(f"k{i}", bytes(60_000))
    assert store.stats().evicted == 0
    cache.store("other").put("last", bytes(60_000))
    left = {f"k{i}" for i in range(10) if store.get(f"k{i}") is not None}
    assert left == {"k0", *(f"k{i}" for i in range(5, 10))}, "down to four fifths"
    assert (store.stats().evicted, cache.store("other").stats().evicted) == (4, 0)


def test_entries_in_use_are_not_evicted(tmp_path: Path) -> None:
    cache = Cache(replace(settings(tmp_path), limit_bytes=300_000))
    store = cache.store("test")
    used = store.ensure("used", lambda folder: (folder / "f").write_bytes(bytes(100_000)))
    os.utime(used.folder, (1, 1))
    for i in range(5):
        store.put(f"k{i}", bytes(100_000))
    assert store.stats().evicted > 0
    assert (used.folder / "f").stat().st_size == 100_000
    trimmed = cache.trim(to=0)
    assert (trimmed.in_use, used.folder.exists()) == (1, True)
    used.close()
    used.close()
    assert (cache.trim(to=0).entries, used.folder.exists()) == ({"test": 1}, False)


def test_an_entry_that_is_replaced_or_removed_in_use_stays_readable(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.put("k", b"old")
    entry = store.find("k")
    assert entry is not None
    store.put("k", b"new")
    store.remove("k")
    assert entry.read("data") == b"old"
    assert store.get("k") is None
    entry.close()


def test_collected_entries_are_not_in_use(tmp_path: Path) -> None:
    cache = Cache(settings(tmp_path))
    for i in range(50):
        cache.store("test").ensure(f"k{i}", write_two)
    assert cache.trim(to=0).in_use == 0


def test_trim_by_age_and_namespace(tmp_path: Path) -> None:
    cache = Cache(settings(tmp_path))
    for name in ("a", "b"):
        for i in range(3):
            cache.store(name).put(f"k{i}", b"x")
            folder = cache.store(name).folder_of(f"k{i}")
            assert folder is not None
            os.utime(folder, (time.time() - i * 1000,) * 2)
    assert cache.trim(older_than=1500, namespace="a").entries == {"a": 1}
    assert cache.trim(older_than=500).entries == {"a": 1, "b": 2}
    assert cache.trim(to=0, namespace="b").entries == {"b": 1}
    assert cache.store("a").get("k0") == b"x"


def test_what_killed_writers_left_goes_after_an_hour(tmp_path: Path) -> None:
    cache = Cache(settings(tmp_path))
    store = cache.store("test")
    store.put("k", b"x")
    work = tmp_path / "cache/1/work"
    old, young = work / "old", work / "young"
    for folder in (old, young):
        folder.mkdir()
        (folder / "half").write_text("half")
    os.utime(old, (time.time() - 4000,) * 2)

    def write_slowly(folder: Path) -> None:
        (folder / "f").write_text("")
        os.utime(folder, (time.time() - 4000,) * 2)
        cache.shrink()
        assert folder.exists(), "a writer that lives keeps its folder"

    store.ensure("slow", write_slowly).close()
    assert not old.exists()
    assert young.exists()
    assert store.get("k") == b"x"


def test_what_was_set_aside_goes_after_a_day(tmp_path: Path) -> None:
    cache = Cache(settings(tmp_path))
    cache.store("test").put("k", b"x")
    (folder_of(tmp_path, "k") / "data").write_bytes(b"y")
    with pytest.warns(StoreWarning, match="WIR254"):
        assert cache.store("test").get("k") is None
    (aside,) = (tmp_path / "cache/1/damaged").iterdir()
    cache.shrink()
    assert aside.exists()
    os.utime(aside, (time.time() - 90_000,) * 2)
    cache.shrink()
    assert not aside.exists()


def test_one_thread_makes_while_the_others_wait(tmp_path: Path) -> None:
    made: list[int] = []
    store = store_in(tmp_path)
    got: list[bytes] = []

    def make() -> bytes:
        made.append(1)
        time.sleep(0.05)
        return b"made"

    threads = [threading.Thread(target=lambda: got.append(store.make("k", make))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [b"made"] * 6
    assert len(made) == 1
    assert store.stats().stored == 1


def test_a_wait_that_takes_too_long_makes_it_twice(tmp_path: Path) -> None:
    impatient = Cache(replace(settings(tmp_path), wait_seconds=0.1)).store("test")
    with store_in(tmp_path).alone("k") as held:
        assert held
        assert impatient.make("k", lambda: b"mine") == b"mine"


def test_some_locks_exclude_and_never_deadlock(tmp_path: Path) -> None:
    keys = [f"key {i}" for i in range(100)]
    first, second = store_in(tmp_path), store_in(tmp_path)
    with first.alone_some(keys[:4]) as mine, second.alone_some(keys) as theirs:
        assert mine == frozenset(keys[:4])
        assert theirs
        assert not mine & theirs
        with second.alone(keys[0], 0.05) as held:
            assert not held
    with second.alone_some(keys) as all_of_them:
        assert all_of_them == frozenset(keys)


def test_counts_of_all_processes_add_up(tmp_path: Path) -> None:
    for _ in range(3):
        cache = Cache(settings(tmp_path))
        cache.store("test").make("k", lambda: b"x")
        cache.store("test").get("k")
        cache.flush()
        cache.flush()
    path = tmp_path / "cache/1/counts/test"
    with path.open("a") as file:
        file.write('{"hits": 1}\nnot json\n[7]\n{"hits": "x", "unknown": 3}\n{"hi')
    total = Cache(settings(tmp_path)).totals("test")
    assert (total.hits, total.misses, total.stored) == (6, 1, 1)


def test_the_file_of_counts_stays_short(tmp_path: Path) -> None:
    cache = Cache(settings(tmp_path))
    store = cache.store("test")
    for _ in range(3000):
        store.get("k")
        cache.flush()
    assert cache.totals("test").misses == 3000
    assert (tmp_path / "cache/1/counts/test").stat().st_size < 70_000


def test_whoever_listens_hears_every_count(tmp_path: Path) -> None:
    heard: list[tuple[str, int]] = []
    store = Cache(settings(tmp_path)).store("test", lambda name, by: heard.append((name, by)))
    store.make("k", lambda: b"x")
    assert heard[0] == ("misses", 1)
    assert {"stored", "stored_bytes"} <= {name for name, _ in heard}


def test_an_entry_is_closed_by_its_block(tmp_path: Path) -> None:
    with store_in(tmp_path).ensure("k", write_two) as entry:
        assert isinstance(entry, Entry)
    with pytest.raises(OSError, match="Bad file descriptor"):
        entry.read("a.txt")
