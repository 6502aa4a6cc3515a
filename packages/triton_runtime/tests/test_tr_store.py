"""The store in one process: what is put is found, nothing else is, and no state of a disk is an error."""

from __future__ import annotations

import os
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from triton_runtime.store import EntryKind, Store, StoreOptions
from triton_runtime.store.entry import key_hash, pack


def options(root: Path) -> StoreOptions:
    return StoreOptions(folder=root / "cache", fallback=root / "fallback", wait_seconds=5)


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("1/*/*/*") if path.parts[-3] in {k.value for k in EntryKind})


def test_what_was_put_is_found_by_key_and_kind(tmp_path: Path) -> None:
    store = Store(options(tmp_path))
    assert store.get("a") is None
    store.put("a", b"kernel")
    store.put("a", b"record", EntryKind.TUNING)
    store.put("empty", b"")
    assert (store.get("a"), store.get("a", EntryKind.TUNING)) == (b"kernel", b"record")
    assert store.get("empty") == b""
    assert store.get("a", EntryKind.CHOICE) is None
    store.put("a", b"newer")
    again = Store(options(tmp_path))
    assert again.get("a") == b"newer"
    assert (again.stats().hits, again.stats().misses, again.stats().stored) == (1, 0, 0)
    assert (store.stats().hits, store.stats().misses, store.stats().stored) == (3, 2, 4)
    again.remove("a")
    assert store.get("a") is None
    assert store.get("a", EntryKind.TUNING) == b"record"
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0, "what we load is nobody else's to write"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:-1], "holds 10999 of 11000 bytes"),
        (lambda data: data[:30], "does not begin as entries"),
        (lambda data: b"", "does not begin as entries"),
        (lambda data: b"\x7fELF" + data, "does not begin as entries"),
        (lambda data: data[:-50] + bytes([data[-50] ^ 1]) + data[-49:], "does not fit its hash"),
        (lambda data: data.replace(b'"kind": "kernel"', b'"kind": "choice"'), "another key"),
        (lambda data: pack(EntryKind.KERNEL, "other", b"foreign"), "another key"),
        (lambda data: b"wrapper-ir-store 1 [1]\nx", "another key"),
        (lambda data: b"wrapper-ir-store 1 {\nx", "not JSON"),
        (lambda data: data.replace(b"store 1", b"store 9"), "of this version"),
    ],
)
def test_damaged_and_foreign_entries_are_reported_and_never_served(tmp_path: Path, damage, said: str) -> None:  # type: ignore[no-untyped-def]  # lambdas
    store = Store(options(tmp_path))
    store.put("k", b"right payload"[:11] * 1000)
    (path,) = entries(tmp_path / "cache")
    assert path.name == key_hash("k")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(RuntimeWarning, match=rf"TR402.*kernel.*{said}"):
        assert store.get("k") is None
    assert (store.stats().damaged, store.stats().misses) == (1, 1)
    assert not path.exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.make("k", lambda: b"made again") == b"made again"
        assert store.get("k") == b"made again"


def test_longest_unused_goes_first(tmp_path: Path) -> None:
    store = Store(replace(options(tmp_path), limit_bytes=1_000_000))
    for i in range(10):
        store.put(f"k{i}", bytes(60_000))
        os.utime(tmp_path / "cache" / "1/kernel" / key_hash(f"k{i}")[:2] / key_hash(f"k{i}"), (i, i))
    assert store.get("k0") is not None  # now the youngest
    for i in range(10, 17):
        store.put(f"k{i}", bytes(60_000))
    left = {f"k{i}" for i in range(17) if store.get(f"k{i}") is not None}
    assert "k0" in left
    assert left == {"k0", *(f"k{i}" for i in range(5, 17))}, "down to four fifths"
    assert store.stats().evicted == 4


def test_what_killed_writers_left_goes_after_a_day(tmp_path: Path) -> None:
    store = Store(options(tmp_path))
    store.put("k", b"x")
    (path,) = entries(tmp_path / "cache")
    old, young = path.with_name(".old.0"), path.with_name(".young.0")
    old.touch()
    young.touch()
    os.utime(old, (time.time() - 90_000,) * 2)
    store.shrink()
    assert not old.exists()
    assert young.exists()
    assert store.get("k") == b"x"


def test_one_thread_makes_while_the_others_wait(tmp_path: Path) -> None:
    made: list[int] = []
    store = Store(options(tmp_path))
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


def test_a_failure_while_making_lets_the_next_one_try(tmp_path: Path) -> None:
    store = Store(options(tmp_path))
    with pytest.raises(ZeroDivisionError):
        store.make("k", lambda: bytes(1 // 0))
    assert store.make("k", lambda: b"second") == b"second"


def test_a_wait_that_takes_too_long_makes_it_twice(tmp_path: Path) -> None:
    impatient = Store(replace(options(tmp_path), wait_seconds=0.1))
    with Store(options(tmp_path)).alone("k") as held:
        assert held
        assert impatient.make("k", lambda: b"mine") == b"mine"


def test_folder_that_cannot_be_written_gives_the_fallback_and_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    broken = replace(options(tmp_path), folder=tmp_path / "file" / "cache")
    store = Store(broken)
    with pytest.warns(
        RuntimeWarning, match=r"TR401.*Not a directory.*fallback.*WRAPPER_IR_CACHE_DIR"
    ) as seen:
        got = [store.make(f"k{i}", lambda: b"made") for i in range(3)]
    assert got == [b"made"] * 3
    assert len(seen) == 1
    assert [store.get(f"k{i}") for i in range(3)] == [b"made"] * 3
    assert Store(broken).get("k1") == b"made", "other processes find it, too"
    assert (store.stats().unwritten, store.stats().stored) == (3, 0)


def put(store: Store, count: int) -> None:
    for i in range(count):
        store.put(f"k{i}", bytes([i]) * 300)


@pytest.mark.parametrize("how", ["none", "open to all", "not writable"])
def test_without_any_folder_entries_stay_in_memory(tmp_path: Path, how: str) -> None:
    (tmp_path / "file").touch()
    fallback = {"none": None, "open to all": tmp_path / "open", "not writable": tmp_path / "file" / "no"}[how]
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    store = Store(
        replace(options(tmp_path), folder=tmp_path / "file" / "c", fallback=fallback, memory_bytes=1000)
    )
    with pytest.warns(RuntimeWarning, match=r"TR401.*memory") as seen:
        put(store, 5)
    assert len(seen) == 1
    assert [store.get(f"k{i}") for i in range(5)] == [None, None, *(bytes([i]) * 300 for i in (2, 3, 4))]
    assert not list((tmp_path / "open").iterdir())


def test_what_others_can_write_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    chosen = replace(options(tmp_path), folder=tmp_path / "file" / "c")
    with pytest.warns(RuntimeWarning, match="TR401"):
        Store(chosen).put("k", b"x")
    assert Store(chosen).get("k") == b"x"
    (tmp_path / "fallback").chmod(0o777)
    assert Store(chosen).get("k") is None


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_shared_level_is_read_and_kept_near_and_never_written(tmp_path: Path, scheme: str) -> None:
    Store(options(tmp_path / "theirs")).put("k", b"shared")
    url = f"{scheme}://{tmp_path}/level"
    files, root = fsspec.core.url_to_fs(url)
    files.put(str(tmp_path / "theirs" / "cache"), root, recursive=True)
    before = sorted(files.find(root))
    mine = replace(options(tmp_path), shared=url)
    store = Store(mine)
    assert store.get("k") == b"shared"
    assert store.get("k") == b"shared"
    assert (store.stats().hits, store.stats().shared_hits) == (2, 1)
    store.put("own", b"1")
    assert store.get("nowhere") is None
    assert sorted(files.find(root)) == before
    assert Store(options(tmp_path)).get("k") == b"shared"


def test_damage_in_the_shared_level_is_reported_and_left_alone(tmp_path: Path) -> None:
    files = fsspec.filesystem("memory")
    name = key_hash("k")
    path = f"/damaged-{tmp_path.name}/1/kernel/{name[:2]}/{name}"
    files.pipe_file(path, pack(EntryKind.KERNEL, "k", b"payload")[:-1])
    store = Store(replace(options(tmp_path), shared=f"memory://damaged-{tmp_path.name}"))
    with pytest.warns(RuntimeWarning, match=r"TR402.*memory://damaged"):
        assert store.make("k", lambda: b"mine") == b"mine"
    assert files.exists(path)
    assert store.get("k") == b"mine"


def test_shared_level_out_of_reach_is_one_warning(tmp_path: Path) -> None:
    store = Store(replace(options(tmp_path), shared="nosuchscheme://host/level"))
    with pytest.warns(RuntimeWarning, match=r"TR403.*nosuchscheme") as seen:
        assert [store.get(f"k{i}") for i in range(3)] == [None] * 3
    assert len(seen) == 1
    assert store.make("k", lambda: b"made") == b"made"
