"""Every refusal has a code and a message that names the place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from torch._inductor import config as inductor_config
from torch._inductor import ir

from inductor_frontend import CaptureError, CaptureOptions, ConversionError, HookError, capture
from inductor_frontend.backend import BackendOptions
from inductor_frontend.constants import tensor_data
from inductor_frontend.convert import literal, to_dtype, to_layout
from inductor_frontend.kernels.cpp_definition import cpp_definition
from inductor_frontend.record.events import DefineKernel
from inductor_frontend.record.kernels import translation_unit, triton_module
from inductor_frontend.record.wrapper import RecordingWrapper
from inductor_frontend.translate.nodes import handler_of
from tests.common.torch_versions import since
from wrapper_ir.errors import WirError
from wrapper_ir.ir import Device, Target


def refused(code: str, *parts: str) -> Any:  # Any: pytest's own context type
    """Expects an error of this code with these words in its message."""
    pattern = r"(?s)" + ".*".join([rf"\[{code}\]", *parts])
    return pytest.raises(WirError, match=pattern)


X = torch.randn(3)

KINDS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "sparse_coo": (lambda x: x.to_sparse(), "torch.sparse_coo"),
    "sparse_csr": (lambda x: x.repeat(3, 1).to_sparse_csr(), "torch.sparse_csr"),
    "mkldnn": (lambda x: x.to_mkldnn(), "torch._mkldnn"),
    "quantized": (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), "quantized .*quint8"),
    "quantized by rows": (
        lambda x: torch.quantize_per_channel(x, torch.ones(3), torch.zeros(3), 0, torch.qint8),
        "quantized .*qint8",
    ),
    "nested": (lambda x: torch.nested.nested_tensor([x, x[:2]]), "nested"),
    "jagged": (
        lambda x: torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged),
        "torch.jagged, .*torch.export",
    ),
}
"""Tensors that the IR has no type for."""


class TestModels:
    def test_untraceable_model(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.sum() > 0 else x - 1

        with refused("FE101", "torch.export", "hint: .*torch.compile"):
            capture(function, (X,))

    def test_sparse_constant(self) -> None:
        with refused("FE306", "w", "sparse"):
            tensor_data("w", X.to_sparse())

    @pytest.mark.parametrize("name", KINDS)
    def test_argument_without_a_type(self, name: str) -> None:
        make, words = KINDS[name]
        with refused("FE305", "argument args\\[1\\]\\['w'\\]", words, "hint"):
            capture(lambda x, d: d["w"] * 2, (X, {"w": make(X)}))
        with refused("FE305", "argument kwargs\\['w'\\]", words, "hint"):
            capture(lambda x, *, w: w * 2, (X,), {"w": make(X)})

    @pytest.mark.parametrize("name", sorted(KINDS.keys() - {"mkldnn"}))
    def test_state_without_a_type(self, name: str) -> None:
        make, words = KINDS[name]
        model = torch.nn.Module()
        model.inner = torch.nn.Module()
        model.inner.register_buffer("w", make(X))
        with refused("FE305", "inner.w is", words, "hint"):
            capture(model, (X,))

    def test_value_without_a_type(self) -> None:
        for function in (lambda x: x.to_sparse(), lambda x: (x.to_sparse() * 2).to_dense()):
            with refused("FE305", "sparse_coo", "_to_sparse", "hint"):
                capture(function, (X,))
        # before 2.12, such tensors have no fake ones: torch.export refuses first
        with refused(
            *(("FE305", "qint8") if since("2.12") else ("FE101", "quantized")), "quantize_per_tensor"
        ):
            capture(lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize(), (X,))

    def test_packed_quantized_weights(self) -> None:
        class Model(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = torch.ao.nn.quantized.Linear(3, 4)  # type: ignore[no-untyped-call]  # torch's

            def forward(self, x: torch.Tensor) -> object:
                return self.linear(torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)).dequantize()

        with refused("FE102", "LinearPackedParamsBase", "no typed form", "hint"):
            capture(Model(), (torch.randn(4, 3),))

    def test_objects_of_torchscript(self) -> None:
        def function(x: torch.Tensor) -> Any:
            packed = torch.ops.quantized.linear_prepack_fp16(torch.ones(4, 3), None)
            return torch.ops.quantized.linear_dynamic_fp16(x, packed)

        with refused("FE305", "LinearPackedParamsBase", "linear_prepack_fp16", "hint"):
            capture(function, (torch.randn(4, 3),))

    def test_nested_tensors_inside(self) -> None:
        def function(values: torch.Tensor, offsets: torch.Tensor) -> Any:
            return torch.nested.nested_tensor_from_jagged(values, offsets).sin().values()

        args = torch.randn(5, 3), torch.tensor([0, 2, 5])
        stock: Any = torch.compile(function, backend="wrapper_ir", fullgraph=True)
        torch.testing.assert_close(stock(*args), function(*args))
        with refused("FE101", "nested_tensor_from_jagged", "hint: .*torch.compile"):
            capture(function, args)

    def test_quantized_numbers_as_integers_are_plain_tensors(self) -> None:
        """Quantization that computes with integers and scales is captured."""
        capture(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255), (X,))

    def test_other_target(self) -> None:
        for target in (Target(device=Device("xpu", 0), arch="pvc"), "cuda", "cpu:avx"):
            with refused("FE103", "target", "cuda:sm_90"):
                capture(torch.nn.Identity(), (X,), target=target)
        with refused("FE103", "sm_12", "CaptureOptions.gpu"):
            capture(torch.nn.Identity(), (X,), target="cuda:sm_12")

    def test_unsaid_container(self) -> None:
        class Box:
            def __init__(self, x: torch.Tensor) -> None:
                self.x = x

        torch.utils._pytree.register_pytree_node(
            Box,
            lambda b: ([b.x], frozenset({1})),
            lambda xs, _: Box(*xs),
            serialized_type_name="fe_test.Box",
            to_dumpable_context=lambda context: context,
            from_dumpable_context=lambda context: context,
        )
        try:
            with refused("FE102", "Box"):
                capture(lambda x: Box(x + 1), (X,))
        finally:
            torch.utils._pytree._deregister_pytree_node(Box)


class TestValues:
    @pytest.mark.parametrize("value", [object(), {1: 2}])
    def test_literals(self, value: object) -> None:
        with refused("FE302", type(value).__name__):
            literal(value)

    def test_dtype(self) -> None:
        with refused("FE305", "quint8"):
            to_dtype(torch.quint8)

    def test_layout(self) -> None:
        with refused("FE302", "_mkldnn_x"):
            to_layout(type("L", (), {"__str__": lambda self: "torch._mkldnn_x"})())


class TestHooks:
    def test_raw_text(self) -> None:
        wrapper = RecordingWrapper.__new__(RecordingWrapper)
        with refused("FE201", "str", "del buf0"):
            wrapper.writeline("del buf0")

    def test_line_of_an_unknown_class(self) -> None:
        class NewLine:
            pass

        wrapper = RecordingWrapper.__new__(RecordingWrapper)
        with refused("FE201", "NewLine"):
            wrapper.writeline(NewLine())

    def test_unwrapped_triton_module(self) -> None:
        with refused("FE201", "triton_0", "async_compile.triton"):
            triton_module("triton_0", "something else")

    @pytest.mark.parametrize("language", ["cutedsl", "flydsl", "nv_universal_gemm", "cutlass", "rocm"])
    def test_kernels_in_another_language(self, language: str) -> None:
        with refused("FE202", "kernel mm_0", f"written in {language}"):
            triton_module(
                "mm_0", f"async_compile.{language}('mm_0', r'''\nsource\n''', precompile_metadata={{}})\n"
            )

    def test_several_streams(self) -> None:
        wrapper = RecordingWrapper.__new__(RecordingWrapper)
        old = mock.patch("inductor_frontend.record.wrapper.ORDERS_STREAMS", False)
        with old, refused("FE202", "streams"):
            wrapper.codegen_device_guard_enter(0, 2, {1: 7})

    def test_unwrapped_kernel_source(self) -> None:
        with refused("FE201", "cpp_0", "cpp_pybinding"):
            translation_unit("cpp_0", "something else")

    def test_node_classes_that_generate_code_their_own_way(self) -> None:
        class Own(ir.ExternKernelOut):
            def codegen(self, wrapper: Any) -> None:
                raise AssertionError

        class Inherits(ir.ExternKernelOut):
            pass

        assert handler_of(Own) is None
        assert handler_of(Inherits) is handler_of(ir.ExternKernelOut)
        assert handler_of(ir._AllReduce_Kernel) is handler_of(ir._CollectiveKernel)

    @pytest.mark.parametrize(
        ("declaration", "part"),
        [("int main;", "declaration"), ('extern "C" void kernel(unknown_t* p);', "unknown_t")],
    )
    def test_kernel_declarations(self, declaration: str, part: str) -> None:
        with refused("FE303", "cpp_0", part):
            cpp_definition(DefineKernel("cpp_0", "", declaration))


class TestOptions:
    def test_unknown_option(self) -> None:
        with refused("FE103", "speed", "hint: known"):
            BackendOptions.parse({"speed": 11})

    def test_known_options(self) -> None:
        parsed = BackendOptions.parse({"emitter": "fx", "verify": False})
        assert parsed.emitter == "fx"
        padded = inductor_config.shape_padding  # which torch.compile follows
        assert parsed.capture == CaptureOptions(verify=False, padded_matmuls=padded)


def test_errors_have_one_base() -> None:
    kinds: list[Callable[..., Exception]] = [CaptureError, HookError, ConversionError]
    assert all(isinstance(kind("FE999", "text"), CaptureError) for kind in kinds)
