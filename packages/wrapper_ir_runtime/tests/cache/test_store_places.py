"""Full disks, unwritable folders, folders of other users, and shared caches."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest
from packages.wrapper_ir_runtime.tests.cache.store_case import folder_of, settings, store_in, write_two

from wrapper_ir.errors import StoreError, StoreWarning
from wrapper_ir_runtime.cache import Cache, CacheSettings, Store


def put_numbers(store: Store) -> None:
    for i in range(5):
        store.put(f"k{i}", bytes([i]))


def test_a_folder_that_cannot_be_written_gives_the_fallback_and_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    broken = replace(settings(tmp_path), folder=tmp_path / "file" / "cache")
    cache = Cache(broken)
    with pytest.warns(StoreWarning, match=r"WIR251.*Not a directory.*fallback.*WRAPPER_IR_CACHE_DIR") as seen:
        got = [cache.store(name).make(f"k{i}", lambda: b"made") for name in ("a", "b") for i in range(3)]
    assert got == [b"made"] * 6
    assert len(seen) == 1
    assert [cache.store("a").get(f"k{i}") for i in range(3)] == [b"made"] * 3
    assert Cache(broken).store("b").get("k1") == b"made", "other processes find it, too"
    assert (cache.store("a").stats().unwritten, cache.store("a").stats().stored) == (3, 0)


@pytest.mark.parametrize("how", ["none", "open to all", "not writable"])
def test_without_a_fallback_entries_go_to_a_folder_of_this_process(tmp_path: Path, how: str) -> None:
    (tmp_path / "file").touch()
    fallback = {"none": None, "open to all": tmp_path / "open", "not writable": tmp_path / "file" / "no"}[how]
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    cache = Cache(CacheSettings(folder=tmp_path / "file" / "c", fallback=fallback))
    store = cache.store("test")
    with pytest.warns(StoreWarning, match=r"WIR251.*using .*wrapper-ir-") as seen:
        put_numbers(store)
    assert len(seen) == 1
    assert [store.get(f"k{i}") for i in range(5)] == [bytes([i]) for i in range(5)]
    assert not list((tmp_path / "open").iterdir())
    with store.ensure("files", write_two) as entry:
        private = entry.folder.parents[3]
        assert private.stat().st_mode & 0o077 == 0
    del cache, store
    assert not private.exists(), "it goes with its cache"


def test_a_user_without_a_home_gets_the_fallback(tmp_path: Path) -> None:
    store = Cache(CacheSettings(folder=None, fallback=tmp_path / "fallback")).store("test")
    with pytest.warns(StoreWarning, match=r"WIR251.*no home folder"):
        store.put("k", b"x")
    assert store.get("k") == b"x"
    assert store.folder_of("k") is None


def test_without_any_folder_what_was_made_is_given_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()

    def nowhere(prefix: str) -> str:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("tempfile.mkdtemp", nowhere)
    store = Cache(CacheSettings(folder=tmp_path / "file" / "c")).store("test")
    with pytest.warns(StoreWarning, match=r"WIR252.*Not a directory.*Read-only"):
        assert store.make("k", lambda: b"made") == b"made"
    assert store.get("k") is None
    with pytest.raises(StoreError, match=r"WIR252(.|\n)*WRAPPER_IR_CACHE_DIR"):
        store.ensure("k", write_two)


def test_a_full_disk_is_called_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the writer of an entry fails; it is called again for another folder."""
    folders: list[Path] = []

    def write(folder: Path) -> None:
        folders.append(folder)
        if folder.is_relative_to(tmp_path / "cache"):
            raise OSError(errno.ENOSPC, "No space left on device")
        write_two(folder)

    store = store_in(tmp_path)
    with pytest.warns(StoreWarning, match=r"WIR250.*is full.*fallback"), store.ensure("k", write) as entry:
        assert entry.folder.is_relative_to(tmp_path / "fallback")
    assert len(folders) == 2
    assert not list((tmp_path / "cache/1/work").iterdir())

    def full(prefix: str) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    with pytest.raises(StoreError, match=r"WIR250.*the disk is full"):
        Cache(replace(settings(tmp_path), fallback=None)).store("test").ensure("l", write)


def test_what_others_can_write_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    chosen = replace(settings(tmp_path), folder=tmp_path / "file" / "c")
    with pytest.warns(StoreWarning, match="WIR251"):
        Cache(chosen).store("test").put("k", b"x")
    assert Cache(chosen).store("test").get("k") == b"x"
    (tmp_path / "fallback").chmod(0o777)
    assert Cache(chosen).store("test").get("k") is None


@pytest.mark.parametrize("how", ["the root itself", "a folder above it", "a symbolic link"])
def test_a_root_in_a_folder_of_all_is_used_only_if_it_is_ours(tmp_path: Path, how: str) -> None:
    """Paths below /tmp are predictable: another user may have created the folder."""
    public = tmp_path / "public"
    root = public / "above" / "cache"
    chosen = CacheSettings(folder=root, fallback=public / "fallback")
    Cache(chosen).store("test").put("k", b"x")
    assert Cache(chosen).store("test").get("k") == b"x"
    if how == "a symbolic link":
        root.rename(public / "elsewhere")
        root.symlink_to(public / "elsewhere")
    else:
        (root if how == "the root itself" else root.parent).chmod(0o777)
    store = Cache(chosen).store("test")
    assert store.get("k") is None
    with pytest.warns(StoreWarning, match=r"WIR253.*may have been written by others"):
        store.put("k", b"y")
    assert store.get("k") == b"y"
    assert Cache(replace(chosen, fallback=None)).trim(to=0).entries == {}


@pytest.mark.parametrize("scheme", ["file", "memory", "folder"])
def test_shared_level_is_read_and_kept_near_and_never_written(tmp_path: Path, scheme: str) -> None:
    theirs = store_in(tmp_path / "theirs")
    theirs.put("k", b"shared")
    theirs.ensure("files", write_two).close()
    url = str(tmp_path / "level") if scheme == "folder" else f"{scheme}://{tmp_path}/level"
    files, root = fsspec.core.url_to_fs(url)
    files.put(str(tmp_path / "theirs" / "cache"), root, recursive=True)
    before = sorted(files.find(root))
    store = Cache(replace(settings(tmp_path), shared=(str(tmp_path / "none"), url))).store("test")
    assert [store.get("k"), store.get("k")] == [b"shared"] * 2
    assert (store.stats().hits, store.stats().shared_hits) == (2, 1)
    with store.ensure("files", lambda folder: pytest.fail("it is shared")) as entry:
        assert entry.folder.is_relative_to(tmp_path / "cache")
        assert (entry.folder / "below/b.txt").read_text() == "beta"
    store.put("own", b"1")
    assert store.get("nowhere") is None
    assert sorted(files.find(root)) == before
    assert store_in(tmp_path).get("k") == b"shared"


def test_damage_in_the_shared_level_is_reported_and_left_alone(tmp_path: Path) -> None:
    store_in(tmp_path / "theirs").put("k", b"payload")
    path = folder_of(tmp_path / "theirs", "k") / "data"
    path.write_bytes(b"payloae")
    store = Cache(replace(settings(tmp_path), shared=(str(tmp_path / "theirs/cache"),))).store("test")
    with pytest.warns(StoreWarning, match=r"WIR254.*theirs.*not used"):
        assert store.make("k", lambda: b"mine") == b"mine"
    assert path.read_bytes() == b"payloae"
    assert store.get("k") == b"mine"


def test_shared_level_out_of_reach_is_one_warning(tmp_path: Path) -> None:
    store = Cache(replace(settings(tmp_path), shared=("nosuchscheme://host/level",))).store("test")
    with pytest.warns(StoreWarning, match=r"WIR255.*nosuchscheme") as seen:
        assert [store.get(f"k{i}") for i in range(3)] == [None] * 3
    assert len(seen) == 1
    assert store.make("k", lambda: b"made") == b"made"


def test_locks_are_taken_where_entries_are_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    broken = replace(settings(tmp_path), folder=tmp_path / "file" / "cache")
    one, other = (Cache(broken).store("test") for _ in range(2))
    with one.alone_some(["a"]) as mine, other.alone_some(["a"]) as theirs, other.alone("a", 0.05) as held:
        assert (mine, theirs, held) == (frozenset({"a"}), frozenset(), False)
