"""Entries copied to another cache as one file: complete entries arrive, other data are refused."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from packages.wrapper_ir_runtime.tests.cache.store_case import settings, write_two

from wrapper_ir.errors import StoreError
from wrapper_ir_runtime.cache import Cache


def _packed(root: Path) -> bytes:
    """Two entries of one process, and one of another process, which stays."""
    Cache(settings(root)).store("test").put("other", b"not used")
    cache = Cache(settings(root))
    cache.store("test").put("bytes", b"kernel")
    cache.store("folders").ensure("two", write_two).close()
    return cache.pack()


def test_what_was_used_arrives(tmp_path: Path) -> None:
    data = _packed(tmp_path / "here")
    there = Cache(settings(tmp_path / "there"))
    assert there.unpack(data) == 2
    assert there.store("test").get("bytes") == b"kernel"
    assert there.store("test").get("other") is None
    entry = there.store("folders").find("two")
    assert entry is not None
    with entry:
        assert (entry.folder / "below/b.txt").read_text() == "beta"
    assert there.store("folders").stats().stored == 1


def test_what_was_found_is_used(tmp_path: Path) -> None:
    _packed(tmp_path)
    cache = Cache(settings(tmp_path))
    assert cache.store("test").get("bytes") == b"kernel"
    entry = cache.store("folders").find("two")
    assert entry is not None
    entry.close()
    assert Cache(settings(tmp_path / "there")).unpack(cache.pack()) == 2


def test_entries_that_are_gone_are_left_out(tmp_path: Path) -> None:
    cache = Cache(settings(tmp_path))
    cache.store("test").put("kept", b"1")
    cache.store("test").put("gone", b"2")
    cache.store("test").remove("gone")
    assert Cache(settings(tmp_path / "there")).unpack(cache.pack()) == 1


def test_what_is_there_stays(tmp_path: Path) -> None:
    data = _packed(tmp_path / "here")
    there = Cache(settings(tmp_path / "there"))
    there.store("test").put("bytes", b"own")
    there.unpack(data)
    assert there.store("test").get("bytes") == b"own"


def _changed(data: bytes, change: str) -> bytes:
    """Returns the archive with one defect."""
    old, made = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(made, "w") as new:
        for info in old.infolist():
            name, content = info.filename, old.read(info)
            if change == "manifest" and name.endswith("manifest.json"):
                continue
            if change == "content" and name.endswith("a.txt"):
                content = content.replace(b"alpha", b"gamma")
            if change == "name":
                name = name.replace("below/", "../../")
            if change == "namespace":
                name = f"../{name}"
            new.writestr(name, content)
        if change == "more":
            new.writestr(f"{old.namelist()[0].rpartition('/')[0]}/more", b"")
    return made.getvalue()


@pytest.mark.parametrize("change", ["manifest", "content", "name", "namespace", "more"])
def test_changed_archives_are_refused_and_nothing_is_written(tmp_path: Path, change: str) -> None:
    data = _changed(_packed(tmp_path / "here"), change)
    there = Cache(settings(tmp_path / "there"))
    with pytest.raises(StoreError, match="WIR260"):
        there.unpack(data)
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("data", [b"", b"PK", b"x" * 1000])
def test_other_data_are_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(StoreError, match="WIR260"):
        Cache(settings(tmp_path)).unpack(data)


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    data = _packed(tmp_path / "here")
    for end in range(0, len(data), 97):
        with pytest.raises(StoreError, match="WIR260"):
            Cache(settings(tmp_path / "there")).unpack(data[:end])
