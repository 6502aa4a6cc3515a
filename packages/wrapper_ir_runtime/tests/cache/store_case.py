"""A cache in a test's folder, and its test entries."""

from __future__ import annotations

from pathlib import Path

from wrapper_ir_runtime.cache import Cache, CacheSettings, Store
from wrapper_ir_runtime.cache.manifest import entry_name


def settings(root: Path) -> CacheSettings:
    return CacheSettings(folder=root / "cache", fallback=root / "fallback", wait_seconds=5)


def store_in(root: Path) -> Store:
    return Cache(settings(root)).store("test")


def folder_of(root: Path, key: str) -> Path:
    name = entry_name("test", key)
    return root / "cache/1/test" / name[:2] / name


def write_two(folder: Path) -> None:
    (folder / "a.txt").write_text("alpha" * 1000)
    (folder / "below").mkdir()
    (folder / "below/b.txt").write_text("beta")
