"""Padded strides: Inductor pads as the options specify, also on a CPU, and results equal eager mode's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor_config
from torch._inductor.fx_passes import pad_mm
from torch._inductor.utils import run_and_get_code
from torch.nn.functional import pad

from inductor_frontend import CaptureError, CaptureOptions, PaddingOptions, capture
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.registry import machine
from wrapper_ir.text import print_program
from wrapper_ir_runtime.interp import call

Check = Callable[..., None]

ALWAYS: dict[str, Any] = {"disable_padding_cpu": False, "padding_stride_threshold": 16}
"""Rows of more than 16 elements are padded to 128 bytes, 32 elements of f32."""


def padded(**more: Any) -> CaptureOptions:
    return CaptureOptions(padding=PaddingOptions(**ALWAYS, **more))


def main(artifact: Artifact) -> str:
    return print_program(artifact.program).split("func @main")[1].split("provenance")[0]


def attention(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, -1) @ w.t()


@pytest.fixture
def example() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(6, 19), torch.randn(19, 19)


class TestStatic:
    def test_rows_are_padded_as_by_inductor(
        self, example: tuple[torch.Tensor, torch.Tensor], equals_eager: Check
    ) -> None:
        artifact = capture(attention, example, options=padded())
        equals_eager(artifact, attention, *example)
        text = main(artifact)
        assert "%buf0 = alloc f32[6, 19]{32, 1}" in text
        assert "extents(716, 24, 24)" in text  # (5 * 32 + 19) elements of 4 bytes, not 6 * 32
        with inductor_config.patch({**ALWAYS, "fx_graph_cache": False}):
            _, (code,) = run_and_get_code(torch.compile(attention), *example)
        assert code.count("(32, 1), torch.float32)") == text.count("alloc f32[6, 19]{32, 1}") > 0

    def test_the_width_is_an_option(self, example: tuple[torch.Tensor, torch.Tensor]) -> None:
        text = main(capture(attention, example, options=padded(padding_alignment_bytes=256)))
        assert "alloc f32[6, 19]{64, 1}" in text

    def test_short_rows_stay(self, example: tuple[torch.Tensor, torch.Tensor]) -> None:
        options = CaptureOptions(padding=PaddingOptions(disable_padding_cpu=False))
        assert options.padding.padding_stride_threshold == 1024
        assert "alloc f32[6, 19]  " in main(capture(attention, example, options=options))

    def test_results_are_as_in_eager_unless_asked(
        self, example: tuple[torch.Tensor, torch.Tensor], equals_eager: Check
    ) -> None:
        def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return (x @ w).relu()

        plain = capture(function, example, options=padded())
        wide = capture(function, example, options=padded(pad_outputs=True))
        for artifact, strides in ((plain, (19, 1)), (wide, (32, 1))):
            equals_eager(artifact, function, *example)
            assert call(artifact, machine("torch"), example).stride() == strides

    def test_a_concatenation_into_a_padded_buffer(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.cat([x.sin(), y.cos()], 1) @ x.t().new_ones(31, 2)

        x, y = torch.randn(6, 19), torch.randn(6, 12)
        artifact = capture(function, (x, y), options=padded())
        equals_eager(artifact, function, x, y)
        text = main(artifact)
        assert "%buf2 = alloc f32[6, 31]{32, 1}" in text
        assert "%buf1 = view %buf2 + 76 : f32[6, 12]{32, 1}" in text

    def test_padding_written_into_the_gap(
        self, example: tuple[torch.Tensor, torch.Tensor], equals_eager: Check
    ) -> None:
        """If a row has space for the elements that `pad` adds, Inductor writes them there: the storage is
        larger than the tensor."""

        def function(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = torch.softmax(x @ w, -1)
            return pad(y, (0, 3, 0, 0)) @ v, y.sum()

        args = (*example, torch.randn(22, 5))
        artifact = capture(function, args, options=padded())
        equals_eager(artifact, function, *args)
        text = main(artifact)
        assert "%buf4.s = alloc_storage 728" in text  # (5 * 32 + 22) * 4: the last row is padded too
        assert "view %buf4 : f32[6, 22]{32, 1}" in text

    def test_convolutions_keep_dense_inputs(self) -> None:
        model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Conv2d(3, 2, 3)).eval()
        x = torch.randn(1, 2, 19, 19)
        with torch.backends.mkldnn.flags(enabled=False):  # else it prefers channels-last, which is not padded
            assert main(capture(model, (x,), options=padded())) == main(capture(model, (x,)))


class TestDynamic:
    def test_symbolic_rows_are_padded(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            y = torch.softmax(x @ w, -1)
            return y.t() @ y

        dims = [torch.export.Dim(name, min=2) for name in "abc"]
        shapes = ({0: dims[0], 1: dims[1]}, {0: dims[1], 1: dims[2]})
        args = (torch.randn(6, 19), torch.randn(19, 21))
        artifact = capture(function, args, dynamic_shapes=shapes, options=padded(pad_dynamic_shapes=True))
        assert "+ 31)//32), 1}" in main(artifact)
        for a, b, c in ((6, 19, 21), (2, 5, 3), (40, 33, 64)):
            equals_eager(artifact, function, torch.randn(a, b), torch.randn(b, c))

    def test_symbolic_rows_stay_by_default(self) -> None:
        shapes = ({1: torch.export.Dim("k")}, {0: torch.export.Dim("k"), 1: torch.export.Dim("c")})
        args = (torch.randn(6, 19), torch.randn(19, 21))
        text = main(
            capture(lambda x, w: (x @ w).relu() @ w.t(), args, dynamic_shapes=shapes, options=padded())
        )
        assert "//32" not in text

    def test_static_rows_of_a_dynamic_batch(
        self, example: tuple[torch.Tensor, torch.Tensor], equals_eager: Check
    ) -> None:
        shapes = ({0: torch.export.Dim("b", min=2)}, None)
        options = padded(pad_dynamic_shapes=True)
        artifact = capture(attention, example, dynamic_shapes=shapes, options=options)
        assert "19]{32, 1}" in main(artifact)
        for batch in (2, 33):
            equals_eager(artifact, attention, torch.randn(batch, 19), example[1])


class TestOptions:
    def test_nothing_is_padded_on_a_cpu_by_default(self, example: tuple[torch.Tensor, torch.Tensor]) -> None:
        options = CaptureOptions(padding=PaddingOptions(padding_stride_threshold=0))
        assert main(capture(attention, example, options=options)) == main(capture(attention, example))

    def test_defaults_are_what_the_process_is_configured_to(
        self, example: tuple[torch.Tensor, torch.Tensor]
    ) -> None:
        with inductor_config.patch(ALWAYS):
            options = CaptureOptions()
            inside = capture(attention, example).program
        assert options.padding == padded().padding
        # the value was made inside; the capture depends on nothing else
        assert capture(attention, example, options=options).program == inside
        assert capture(attention, example).program != inside

    def test_explicit_options_win_over_the_process(self, example: tuple[torch.Tensor, torch.Tensor]) -> None:
        plain, options = capture(attention, example).program, CaptureOptions()
        with inductor_config.patch(ALWAYS):
            assert capture(attention, example, options=options).program == plain

    def test_operands_of_matmuls_stay_as_they_are_on_a_cpu(
        self, example: tuple[torch.Tensor, torch.Tensor]
    ) -> None:
        plain = capture(attention, example).program
        with inductor_config.patch({"shape_padding": True, "force_shape_pad": True}):
            assert capture(attention, example).program == plain
            assert capture(attention, example, options=CaptureOptions(padded_matmuls=True)).program == plain

    @pytest.mark.parametrize("language", ["python", "fx"])
    def test_padded_operands_of_matmuls(
        self,
        language: str,
        example: tuple[torch.Tensor, torch.Tensor],
        equals_eager: Check,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Inductor benchmarks on a GPU; a stand-in reports here that padding is faster."""
        monkeypatch.setattr(pad_mm, "check_device", lambda a, b: True)
        monkeypatch.setattr(pad_mm, "has_triton", lambda: True)
        monkeypatch.setattr(pad_mm, "_should_pad", lambda *args, **kwargs: True)
        artifact = capture(attention, example, options=CaptureOptions(padded_matmuls=True))
        equals_eager(artifact, attention, *example)
        assert "[20, 20]" in main(artifact)  # 19 up to a multiple of four
        assert "20" not in main(capture(attention, example))
        compiled = torch.compile(attention, backend="wrapper_ir", options={"emitter": language})
        torch.testing.assert_close(compiled(*example), attention(*example))

    def test_what_pays_is_not_measured_without_a_gpu(
        self, example: tuple[torch.Tensor, torch.Tensor]
    ) -> None:
        with pytest.raises(CaptureError, match=r"FE103.*measured on a device"):
            capture(attention, example, target="cuda:sm_90", options=CaptureOptions(padded_matmuls=True))

    @pytest.mark.usefixtures("_fresh_dynamo")
    def test_training_with_padded_rows(self) -> None:
        """Padded activations are saved for the backward graph, which reads them as they are."""
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 19), nn.Softmax(-1), nn.Linear(19, 3))
        x = torch.randn(6, 8)
        want = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        options: dict[str, Any] = {"padding": ALWAYS}
        compiled = torch.compile(model, backend="wrapper_ir", options=options)
        got = torch.autograd.grad(compiled(x).square().sum(), list(model.parameters()))
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_padded_storages_are_no_larger_than_their_last_element(
    example: tuple[torch.Tensor, torch.Tensor],
) -> None:
    """The gap after the last row is never accessed, so it is not allocated."""
    artifact = capture(attention, example, options=padded())
    types = [op.result.type for op in artifact.program.main.ops_of(ir.AllocStorage)]
    assert [str(t.nbytes) for t in types].count("716") == 1
