"""Triton kernels that a model provides: their captured form, and the identity of kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from packages.inductor_frontend.tests.own_kernel_source import TEXT, A, B, load, offline, own

from inductor_frontend import CaptureOptions, capture
from tests.common.torch_versions import since
from wrapper_ir import ir
from wrapper_ir.expr import print_expr
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir.plugins.registry import machine
from wrapper_ir_runtime.interp import call

pytest.importorskip("triton", reason="the kernels are Triton's")


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return load(tmp_path_factory.mktemp("own"))


class TestDefinitions:
    def test_constants_and_access(self, module: ModuleType) -> None:
        plain, wide = own(offline(module.adding))
        assert dict(plain.constants) == {"factor": None, "BLOCK": 128, "WIDE": False}
        assert dict(wide.constants) == {"BLOCK": 128, "WIDE": True}
        accesses = {p.name: p.access for p in wide.params}
        assert accesses == {
            "a": ir.Access.READ,
            "b": ir.Access.READ,
            "out": ir.Access.READWRITE,
            "n": ir.Access.NONE,
            "factor": ir.Access.NONE,
        }
        # Torch does not look into a kernel of which a default was taken.
        assert {p.access for p in plain.params} == {ir.Access.READWRITE, ir.Access.NONE}
        assert plain.entry == "add"
        assert "def scaled(x):" in plain.source
        assert "SCALE" in plain.source.split("def scaled")[1]

    @pytest.mark.skipif(not since("2.15"), reason="older versions take no options")
    def test_options_of_a_launch(self, tmp_path: Path) -> None:
        text = TEXT.replace("n, None, BLOCK=128)", "n, None, BLOCK=128, maxnreg=32, num_warps=2)")
        plain, wide = own(offline(load(tmp_path, text).adding))
        assert plain.options == (("maxnreg", 32),)
        assert [c.num_warps for c in plain.configs] == [2]
        assert wide.options == ()

    @pytest.mark.skipif(
        not since("2.13"), reason="torch 2.11 and 2.12 lose backslashes of own kernels themselves"
    )
    def test_the_text_is_exact(self, module: ModuleType) -> None:
        (kernel, _) = own(offline(module.adding))
        assert r"a \\ and quotes" in kernel.source

    def test_a_grid_computed_by_the_caller(self, module: ModuleType) -> None:
        program = offline(module.adding)
        launches = [op for op in program.main.ops_of(ir.Launch) if op.grid]
        assert [[print_expr(g) for g in op.grid] for op in launches] == [["3", "1", "1"]] * 2

    def test_grids_of_configs(self, module: ModuleType) -> None:
        (kernel,) = own(offline(module.accumulating))
        grids = [[print_expr(g) for g in c.grid] for c in kernel.configs]
        assert grids == [["5", "1", "1"], ["3", "1", "1"]]
        assert [(c.num_warps, c.num_stages) for c in kernel.configs] == [(2, 3), (4, 2)]
        assert (kernel.restore, kernel.reset) == (("out",), ("seen",))

    @pytest.mark.skipif(
        not since("2.13"), reason="torch 2.11 and 2.12 fail themselves on grids of dynamic sizes"
    )
    def test_grids_of_sizes(self, module: ModuleType) -> None:
        dim = torch.export.Dim("rows", max=1000)
        program = offline(module.accumulating, dynamic_shapes=({0: dim}, {0: dim}))
        (kernel,) = own(program)
        assert len(kernel.grid_params) == 1
        (launch,) = (op for op in program.main.ops_of(ir.Launch) if op.grid)
        assert len(launch.grid) == 1


class TestIdentity:
    """A kernel's identity is its source with its dependencies, its constants and its configs."""

    def hashes(self, folder: Path, text: str) -> list[str]:
        folder.mkdir()
        module = load(folder, text)
        return [content_hash(k) for k in own(offline(module.adding)) + own(offline(module.accumulating))]

    def test_elsewhere_it_is_the_same(self, tmp_path: Path) -> None:
        moved = "\n\n# moved\n" + TEXT
        assert self.hashes(tmp_path / "a", TEXT) == self.hashes(tmp_path / "b", moved)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("old", "new", "changed"),
        [
            ("return x * SCALE", "return x * SCALE + 0", [0, 1]),
            ("tl.constexpr(3)", "tl.constexpr(4)", [0, 1]),
            ("BLOCK=128)", "BLOCK=256)", [0]),
            ("num_warps=2", "num_warps=8", [2]),
        ],
        ids=["helper", "global", "constant", "config"],
    )
    def test_what_it_uses_counts(self, tmp_path: Path, old: str, new: str, changed: list[int]) -> None:
        before = self.hashes(tmp_path / "a", TEXT)
        after = self.hashes(tmp_path / "b", TEXT.replace(old, new))
        assert [i for i, (x, y) in enumerate(zip(before, after, strict=True)) if x != y] == changed


class TestRuns:
    """Runs on CPU tensors in Triton's interpreter, compared with torch's own operators."""

    def run(self, model: Callable[..., Any], *args: torch.Tensor) -> Any:  # Any: what models return
        artifact = capture(model, args, options=CaptureOptions(cpu_kernels="triton"))
        return call(artifact, machine("torch"), args, {})

    def test_adding(self, module: ModuleType) -> None:
        out, wide = self.run(module.adding, A, B)
        torch.testing.assert_close(out, (A + 3 * B).sin())
        torch.testing.assert_close(wide, (B + 3 * A) * 5)

    def test_accumulating(self, module: ModuleType) -> None:
        out, reads = self.run(module.accumulating, A, B)
        torch.testing.assert_close(out, (A + B) * 2)
        torch.testing.assert_close(reads, torch.ones_like(B))
