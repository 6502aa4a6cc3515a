"""Only its user may write a cache, whatever the umask is. Files that others could have written are not
loaded."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from packages.wrapper_ir_runtime.tests.cache.store_case import store_in, write_two

from wrapper_ir.errors import StoreWarning
from wrapper_ir_runtime.cache import Store


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def fill(store: Store) -> None:
    """Entries of each kind, with a folder and a program among their files."""

    def write(folder: Path) -> None:
        write_two(folder)
        (folder / "inner" / "deep").mkdir(parents=True, exist_ok=True)
        (folder / "inner" / "deep" / "run").write_text("code")
        (folder / "inner" / "deep" / "run").chmod(0o777)
        (folder / "nowhere").symlink_to("absent")

    store.ensure("files", write).close()
    store.put("bytes", b"data")
    store.make("made", lambda: b"data")
    store.remove("made")
    store._cache.flush()


def test_nothing_in_a_root_that_is_there_can_be_written_by_others(tmp_path: Path, umask: int) -> None:
    root = tmp_path / "cache"
    root.mkdir(mode=0o755)
    fill(store_in(root))
    found = [path for path in root.rglob("*") if not path.is_symlink()]
    assert len(found) > 10
    open_to_others = [path for path in found if path.stat().st_mode & 0o022]
    assert not open_to_others
    assert (next(root.rglob("run")).stat().st_mode & stat.S_IXUSR) != 0
    again = store_in(root)
    assert again.get("bytes") == b"data"
    with again.ensure("files", lambda folder: pytest.fail("it is there")) as entry:
        assert entry.read("inner/deep/run") == b"code"


def _open(path: Path) -> None:
    path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o002)


def _open_to_group(path: Path) -> None:
    path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o020)


def _of_another(path: Path) -> None:
    os.chown(path, 4711, -1)


@pytest.mark.parametrize("change", [_open, _open_to_group, _of_another])
@pytest.mark.parametrize("what", ["entry", "manifest.json", "data", "inner/deep/run", "inner"])
def test_entries_that_others_may_write_are_set_aside(tmp_path: Path, change: object, what: str) -> None:
    if change is _of_another and os.getuid() != 0:
        pytest.skip("only the superuser gives files away")
    fill(store_in(tmp_path))
    key = "bytes" if what == "data" else "files"
    folder = store_in(tmp_path).folder_of(key)
    assert folder is not None
    assert callable(change)
    change(folder if what == "entry" else folder / what)
    store = store_in(tmp_path)
    with pytest.warns(StoreWarning, match=r"WIR254.*not this user's alone"):
        assert (store.get(key) if what == "data" else store.find(key)) is None
    assert not folder.exists()
    fill(store)  # made again
    again = store_in(tmp_path)
    assert again.get("bytes") == b"data"


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_entries_in_a_folder_of_another_user_are_not_seen(tmp_path: Path, depth: int) -> None:
    if os.getuid() != 0:
        pytest.skip("only the superuser gives files away")
    root = tmp_path / "cache"
    fill(store_in(root))
    folder = store_in(root).folder_of("bytes")
    assert folder is not None
    os.chown(folder.parents[depth], 4711, -1)
    store = store_in(root)
    assert store.get("bytes") is None
    with pytest.warns(StoreWarning, match=r"WIR253.*may have been written by others"):
        store.put("bytes", b"new")
    assert store.get("bytes") == b"new"
    assert (folder / "data").read_bytes() == b"data"


def test_folders_of_an_older_cache_are_closed(tmp_path: Path) -> None:
    fill(store_in(tmp_path))
    store = store_in(tmp_path)
    folder = store.folder_of("bytes")
    assert folder is not None
    for above in list(folder.parents)[:3]:
        above.chmod(0o777)
    assert store.get("bytes") is None
    store.put("bytes", b"new")
    assert store.get("bytes") == b"new"
    assert all(above.stat().st_mode & 0o022 == 0 for above in list(folder.parents)[:3])


def test_a_swapped_entry_is_not_loaded(tmp_path: Path) -> None:
    """A user who may write the root puts an entry there under the right name."""
    if os.getuid() != 0:
        pytest.skip("only the superuser gives files away")
    theirs, root = tmp_path / "theirs", tmp_path / "cache"
    fill(store_in(root))
    other = store_in(theirs)
    other.put("bytes", b"evil")
    source, target = other.folder_of("bytes"), store_in(root).folder_of("bytes")
    assert source is not None
    assert target is not None
    for path in (source, *source.iterdir()):
        os.chown(path, 4711, -1)
    shutil.rmtree(target)
    os.rename(source, target)
    store = store_in(root)
    with pytest.warns(StoreWarning, match="WIR254"):
        assert store.get("bytes") is None
