"""`wir cache`: show, trim and clear."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wrapper_ir_runtime.cache import Cache, read_settings
from wrapper_ir_tools.cli.main import main


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """A cache with five entries in two namespaces; one entry has three hits, and the oldest is five days
    old."""
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WRAPPER_IR_CACHE_BYTES", "1M")
    cache = Cache(read_settings())
    for name, count in (("python", 2), ("triton", 3)):
        store = cache.store(name)
        for i in range(count):
            store.put(f"k{i}", bytes(2000))
    for _ in range(3):
        cache.store("python").get("k0")
    oldest = cache.store("triton").folder_of("k0")
    assert oldest is not None
    os.utime(oldest, (time.time() - 5 * 24 * 3600,) * 2)
    cache.flush()
    return cache


def wir(*args: str) -> Result:
    return CliRunner().invoke(main, ["cache", *args])


def test_show(cache: Cache) -> None:
    result = wir("show")
    assert result.exit_code == 0, result.output
    head, titles, python, triton = result.output.splitlines()
    assert head.startswith(f"{cache.settings.folder}: 10.")
    assert head.endswith("KiB of 1.0 MiB")
    assert titles.split() == ["entries", "size", "hits", "misses", "evicted", "damaged"]
    assert python.split() == ["python", "2", "4.3", "KiB", "3", "0", "0", "0"]
    assert triton.split()[:2] == ["triton", "3"]


def test_show_as_json(cache: Cache) -> None:
    result = json.loads(wir("show", "--json").output)
    assert (result["folder"], result["limit_bytes"]) == (str(cache.settings.folder), 1 << 20)
    python = result["namespaces"]["python"]
    assert (python["entries"], python["hits"], python["stored"]) == (2, 3, 2)
    assert 4000 < python["bytes"] == python["stored_bytes"] < 5000


def test_show_an_empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path / "none"))
    result = wir("show")
    assert (result.exit_code, result.output) == (0, f"{tmp_path / 'none'}: 0 B of 8.0 GiB\n")
    assert not (tmp_path / "none").exists()


def test_trim_by_age(cache: Cache) -> None:
    result = wir("trim", "--older-than", "4d")
    assert result.output.startswith("removed 1 entries (2."), result.output
    assert cache.store("triton").get("k0") is None
    assert cache.store("triton").get("k1") is not None


def test_trim_to_a_size(cache: Cache) -> None:
    result = wir("trim", "--to", "7k")
    assert result.output.startswith("removed 2 entries"), result.output
    assert cache.store("triton").get("k0") is None
    result = wir("trim", "--to", "0", "python")
    assert result.output.startswith("removed "), result.output
    assert cache.usage()["python"] == (0, 0)
    assert cache.usage()["triton"][0] > 0


def test_clear(cache: Cache) -> None:
    with cache.store("python").ensure("k0", lambda folder: None):
        result = wir("clear")
        assert result.output.startswith("removed 4 entries"), result.output
        assert result.output.endswith("1 in use stay\n")
    assert wir("clear", "python").output == "removed 1 entries (2.1 KiB), 0 B left\n"
    assert json.loads(wir("show", "--json").output)["namespaces"]["triton"]["evicted"] == 3


def test_clear_removes_what_was_set_aside(cache: Cache) -> None:
    folder = cache.store("python").folder_of("k0")
    assert folder is not None
    (folder / "data").write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match="WIR254"):
        cache.store("python").get("k0")
    wir("clear")
    assert cache.settings.folder is not None
    assert not list((cache.settings.folder / "1/damaged").iterdir())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("trim",), "--to SIZE, --older-than AGE"),
        (("trim", "--to", "much"), "'much' is not a size"),
        (("trim", "--older-than", "30"), "'30' is not an age"),
        (("clear", "pyhton"), "no namespace 'pyhton' (it has: python, triton)"),
    ],
)
def test_what_cannot_be_done(cache: Cache, args: tuple[str, ...], message: str) -> None:
    result = wir(*args)
    assert result.exit_code == 2
    assert message in result.output
    assert sum(count for count, _ in cache.usage().values()) == 5
