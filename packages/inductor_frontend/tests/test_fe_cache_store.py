"""The cache on disk: complete entries or none, despite damaged files, killed processes and full disks."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch._functorch._aot_autograd import schemas
from torch.compiler import config as compiler_config
from torch.utils._sympy.functions import FloorDiv, ModularIndexing, PythonMod

from inductor_frontend.backend.options import BackendOptions
from inductor_frontend.cache import stats
from inductor_frontend.cache.autograd_json import decode_metadata, encode_metadata
from inductor_frontend.cache.operators import NoCanonicalForm
from inductor_frontend.cache.sizes import decode_size, encode_size
from inductor_frontend.settings import read_settings
from wrapper_ir.errors import StoreError, StoreWarning
from wrapper_ir_runtime.cache import DamagedEntry
from wrapper_ir_runtime.cache.manifest import MANIFEST, seal


@pytest.fixture(autouse=True)
def _fresh() -> None:
    counters.clear()


def matmul(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def compiled_matmul(folder: Path, **kwargs: Any) -> Tensor:
    """One call of a freshly compiled function, with a cache in `folder`."""
    torch._dynamo.reset()
    counters.clear()
    function = torch.compile(matmul, backend="wrapper_ir", options={"cache": str(folder)}, **kwargs)
    result: Tensor = function(torch.ones(3, 4), torch.ones(4, 2))
    torch.testing.assert_close(result, torch.full((3, 2), 4.0))
    return result


def entries(folder: Path) -> list[Path]:
    """The files of all entries, without manifests."""
    return sorted(
        (p for p in folder.glob("1/graphs/*/*/*") if p.name != "manifest.json"), key=lambda p: p.suffix
    )


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with one function in it."""
    folder = tmp_path_factory.mktemp("sound")
    compiled_matmul(folder)
    assert [p.suffix for p in entries(folder)] == [".json", ".wir"]
    return folder


class TestDamage:
    """Every byte of an entry counts: a damaged one is reported, set aside and recompiled."""

    @pytest.fixture
    def folder(self, sound: Path, tmp_path: Path) -> Path:
        return Path(shutil.copytree(sound, tmp_path / "cache"))

    def recovered(self, folder: Path) -> None:
        with pytest.warns(RuntimeWarning, match=r"WIR254.*set aside"):
            compiled_matmul(folder)
        assert stats().damaged == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled_matmul(folder)
        assert (stats().function_hits, stats().damaged) == (1, 0)

    @pytest.mark.parametrize("kind", [".json", ".wir"])
    @pytest.mark.parametrize("place", [0.0, 0.5, 0.999])
    def test_a_changed_byte(self, folder: Path, kind: str, place: float) -> None:
        [path] = [p for p in entries(folder) if p.suffix == kind]
        data = bytearray(path.read_bytes())
        data[int(len(data) * place)] ^= 1
        path.write_bytes(data)
        self.recovered(folder)

    @pytest.mark.parametrize("kind", [".json", ".wir"])
    def test_a_cut_file(self, folder: Path, kind: str) -> None:
        [path] = [p for p in entries(folder) if p.suffix == kind]
        os.truncate(path, 100)
        self.recovered(folder)

    @pytest.mark.parametrize("kind", [".json", ".wir"])
    @pytest.mark.parametrize("resealed", [False, True])
    def test_a_sound_entry_under_another_key(self, folder: Path, kind: str, resealed: bool) -> None:
        """The manifest names its entry, and both kinds of entries contain their key."""
        other = folder.with_name("other")
        torch._dynamo.reset()
        torch.compile(matmul, backend="wrapper_ir", options={"cache": str(other)})(
            torch.ones(5, 4), torch.ones(4, 2)
        )
        [wrong], [path] = ([p for p in entries(f) if p.suffix == kind] for f in (other, folder))
        wrong.replace(path)
        (wrong.parent / MANIFEST).replace(path.parent / MANIFEST)
        if resealed:
            (path.parent / MANIFEST).unlink()
            seal(path.parent, path.parent.name)
        self.recovered(folder)

    def test_a_missing_graph(self, folder: Path) -> None:
        """A function without one of its graphs is not a function."""
        [graph] = [p for p in entries(folder) if p.suffix == ".wir"]
        shutil.rmtree(graph.parent)
        compiled_matmul(folder)
        assert (stats().function_hits, stats().lowered, stats().damaged) == (0, 1, 0)


class TestFolders:
    def test_none(self, tmp_path: Path) -> None:
        BackendOptions.parse({"cache": False})
        assert BackendOptions.parse({"cache": False}).store() is None
        assert BackendOptions.parse({}).store() is None, "the tests' own environment says so"
        assert BackendOptions.parse({"cache": True}).store() is not None

    def test_what_the_environment_says(self) -> None:
        def settings(**env: str) -> tuple[bool, str, int]:
            result = read_settings({"HOME": "/home/u", "XDG_CACHE_HOME": "/x", **env})
            return result.enabled, str(result.cache.folder), result.cache.limit_bytes

        assert settings() == (True, "/x/wrapper-ir", 8 << 30)
        assert settings(WRAPPER_IR_CACHE_DIR="/c")[1] == "/c"
        assert settings(WRAPPER_IR_COMPILE_CACHE="0")[0] is False
        assert settings(WRAPPER_IR_CACHE_BYTES="100")[2] == 100
        with pytest.raises(StoreError, match="WIR257"):
            settings(WRAPPER_IR_COMPILE_CACHE="/own")

    def test_one_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("not a folder")
        with pytest.warns(StoreWarning, match=r"WIR251.*cannot be written"):
            compiled_matmul(tmp_path / "file")
        assert (stats().lowered, stats().stored, stats().unwritten) == (1, 0, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error", StoreWarning)
            compiled_matmul(tmp_path / "file")
        assert stats().function_hits == 1, "the fallback is read"

    def test_when_torch_is_told_to_cache_nothing(self, tmp_path: Path) -> None:
        config: Any = compiler_config  # its methods are installed at run time
        with config.patch(force_disable_caches=True):
            compiled_matmul(tmp_path)
        assert entries(tmp_path) == []

    def test_entries_are_for_their_owner(self, tmp_path: Path) -> None:
        compiled_matmul(tmp_path / "cache")
        assert entries(tmp_path / "cache")
        assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


def test_evictions_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRAPPER_IR_CACHE_BYTES", "1000")
    compiled_matmul(tmp_path)
    assert stats().stored == 2
    assert stats().evicted > 0


class TestRecords:
    """Metadata stored with programs is restored exactly; other metadata is refused when it is written."""

    def test_sizes(self) -> None:
        s0, u0 = sympy.Symbol("s0", integer=True, positive=True), sympy.Symbol("u0", integer=True)
        symbols = {"s0": s0, "u0": u0}
        exprs = [
            sympy.Integer(3), s0, s0 * 2 + u0, FloorDiv(s0, 2), ModularIndexing(s0, 2, 3), PythonMod(s0, 4),
            sympy.Eq(s0, 4), sympy.Ne(s0, u0), s0 < 7, s0 >= u0, sympy.true, sympy.Rational(1, 3) * s0,
            sympy.And(s0 < 7, u0 > 2), sympy.Not(sympy.Eq(s0, 4)), sympy.Float(0.1),
        ]  # fmt: skip
        for expr in exprs:
            assert decode_size(encode_size(expr), symbols) == expr

    def test_sizes_of_other_kinds(self) -> None:
        with pytest.raises(NoCanonicalForm):
            encode_size(sympy.Function("mystery")(sympy.Symbol("s0")))
        bad: list[Any] = [
            {"symbol": "s1"},
            {"call": "exec", "args": []},
            {"call": "FloorDiv"},
            "s0",
            None,
            {},
        ]
        for record in bad:
            with pytest.raises(DamagedEntry):
                decode_size(record, {})

    def test_values(self) -> None:
        values: list[Any] = [
            None, True, 3, 0.1, "text", [1, [2]], (1, (2,)), {1, 2}, {"a": (1,), 3: None}, torch.Size([2, 3]),
            torch.float32, torch.channels_last, torch.strided, torch.device("cpu"), torch.Tensor,
            schemas.OutputType.alias_of_input, schemas.MutationType.MUTATED_IN_GRAPH,
            schemas.PlainTensorMeta(unwrapped_idx=2, memory_format=schemas.MemoryFormatMeta(size=[1], stride=[1])),
        ]  # fmt: skip
        for value in values:
            again = decode_metadata(encode_metadata(value))
            assert again == value
            assert type(again) is type(value)

    def test_values_of_other_kinds(self) -> None:
        for odd in (object(), torch.ones(1), print, os.path, Path(), schemas.SubclassCreationMeta):
            with pytest.raises(NoCanonicalForm):
                encode_metadata(odd)
        bad: list[Any] = [
            {"class": "os:system", "fields": {}}, {"class": "torch._functorch._aot_autograd.schemas:torch", "fields": {}},
            {"enum": "os:system", "name": "x"}, {"torch": "ones"}, {"unknown": 1}, {"views": [["exec", []]]}, {},
        ]  # fmt: skip
        for record in bad:
            with pytest.raises(DamagedEntry):
                decode_metadata(record)
