"""Configuration of the cache from the environment."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from wrapper_ir.errors import StoreError
from wrapper_ir_runtime.cache import open_cache, parse_size, read_settings


def test_defaults_are_in_the_users_cache_folder() -> None:
    settings = read_settings({})
    assert settings.folder == Path.home() / ".cache" / "wrapper-ir"
    assert settings.fallback is not None
    assert settings.fallback.parent == Path(tempfile.gettempdir())
    assert settings.fallback.name.startswith(f"wrapper-ir-{os.getuid()}-")
    assert (settings.limit_bytes, settings.shared) == (8 << 30, ())


def test_one_variable_names_the_root() -> None:
    assert read_settings({"XDG_CACHE_HOME": "/x"}).folder == Path("/x/wrapper-ir")
    assert read_settings({"WRAPPER_IR_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x"}).folder == Path("/c")
    assert read_settings({"WRAPPER_IR_CACHE_DIR": "~/c"}).folder == Path.home() / "c"
    assert read_settings({"WRAPPER_IR_CACHE_DIR": "c"}).folder == Path.cwd() / "c"


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(path: str) -> str:
        return path

    monkeypatch.setattr("os.path.expanduser", nobody)
    assert read_settings({}).folder is None
    assert read_settings({"XDG_CACHE_HOME": "/x"}).folder == Path("/x/wrapper-ir")


def test_limits_and_shared_caches() -> None:
    settings = read_settings(
        {"WRAPPER_IR_CACHE_BYTES": "1.5G", "WRAPPER_IR_CACHE_SHARED": "/nfs/cache, s3://bucket/x,"}
    )
    assert settings.limit_bytes == 3 << 29
    assert settings.shared == ("/nfs/cache", "s3://bucket/x")


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("4096", 4096), ("1k", 1024), ("2 MiB", 2 << 20), ("3GB", 3 << 30), ("1T", 1 << 40)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "G", "1x", "1e3", "0x10", "1 2"])
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(StoreError, match="WIR256"):
        parse_size(text)


def test_a_limit_that_is_not_a_size() -> None:
    with pytest.raises(StoreError, match=r"WIR256.*WRAPPER_IR_CACHE_BYTES.*'much'"):
        read_settings({"WRAPPER_IR_CACHE_BYTES": "much"})


def test_one_cache_for_the_same_settings() -> None:
    settings = read_settings({"WRAPPER_IR_CACHE_DIR": "/nowhere"})
    assert open_cache(settings) is open_cache(read_settings({"WRAPPER_IR_CACHE_DIR": "/nowhere"}))


def test_each_root_has_a_fallback_of_its_own() -> None:
    one, other = (read_settings({"WRAPPER_IR_CACHE_DIR": name}) for name in ("/a", "/b"))
    assert one.fallback != other.fallback
    assert one.with_root(Path("/b")) == other
