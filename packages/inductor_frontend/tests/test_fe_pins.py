"""Pinned options: Inductor's options that would add text, timings or machine-specific data to a program.

A capture sets them, whatever their values in the process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from packaging.version import Version
from torch import nn
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

from inductor_frontend import CaptureOptions, capture
from inductor_frontend.torch_patches.pinned_options import functorch_patches, inductor_patches
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.registry import emitter
from wrapper_ir.text import print_program

Check = Callable[..., None]

CHANGED: dict[str, object] = {
    "freezing": True,
    "freezing_discard_parameters": True,
    "graph_partition": True,
    "cpp_wrapper": True,
    "fx_wrapper": True,
    "memory_planning": True,
    "allow_buffer_reuse": True,
    "inplace_buffers": False,
    "can_inplace_pad_graph_input": True,
    "cpu_backend": "triton",
    "cuda_backend": "halide",
    "max_autotune": True,
    "max_autotune_gemm": True,
    "max_autotune_pointwise": True,
    "max_autotune_gemm_backends": "TRITON",
    "max_autotune_conv_backends": "TRITON",
    "multi_kernel_hints": [64],
    "distributed_max_autotune_gemm": True,
    "remote_gemm_autotune_cache": True,
    "compile_threads": 2,
    "coordinate_descent_tuning": True,
    "benchmark_kernel": True,
    "benchmark_harness": False,
    "benchmark_fusion": True,
    "nan_asserts": True,
    "size_asserts": False,
    "scalar_asserts": False,
    "alignment_asserts": True,
    "alignment_asserts_inputs": True,
    "combo_kernel_compile_time_autotune": True,
    "comment_origin": True,
    "generate_intermediate_hooks": True,
    "profiler_mark_wrapper_call": True,
    "profile_bandwidth": True,
    "fx_graph_cache": True,
    "cpp.enable_kernel_context_guard": True,
    "cpp.enable_kernel_profile": True,
    "cpp.weight_prepack": True,
    "triton.cudagraphs": True,
    "triton.debug_sync_graph": True,
    "triton.debug_sync_kernel": True,
    "triton.autotune_at_compile_time": True,
    "triton.multi_kernel": 1,
    "triton.num_decompose_k_splits": 3,
    "triton.proton_profiling": True,
    "triton.store_cubin": True,
    "triton.unique_user_kernel_names": True,
    "epilogue_fusion_user_defined_triton_kernel": True,
    "trace.enabled": False,
    "test_configs.track_memory_lifecycle": "assert",
}
"""Settings of the process that must not affect a program, individually and all together."""

ONE_BY_ONE = [
    "freezing",
    "graph_partition",
    "cpp_wrapper",
    "fx_wrapper",
    "memory_planning",
    "cpu_backend",
    "max_autotune",
    "cpp.enable_kernel_profile",
    "test_configs.track_memory_lifecycle",
]


def example() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Returns a model with a matmul, a convolution, a reduction and a concatenation, which the settings above
    would change."""
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)
            self.convolution = nn.Conv1d(2, 2, 3)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            x = self.linear(x).relu().softmax(-1)
            return torch.cat([x, x * 2]), self.convolution(y).relu()

    return Model().eval(), (torch.randn(4, 8), torch.randn(1, 2, 8))


@pytest.fixture(scope="module")
def plain() -> ir.Program:
    return capture(*example()).program


class TestCapture:
    @pytest.mark.parametrize("name", ONE_BY_ONE)
    def test_one_setting(self, name: str, plain: ir.Program) -> None:
        with inductor_config.patch({name: CHANGED[name]}):
            assert capture(*example()).program == plain

    def test_all_together(self, plain: ir.Program) -> None:
        options = inductor_config.get_config_copy()
        with inductor_config.patch({k: v for k, v in CHANGED.items() if k in options}):
            assert capture(*example()).program == plain

    @pytest.mark.parametrize("name", ["functionalize_rng_ops", "selective_decompose"])
    def test_settings_of_autograd(self, name: str, plain: ir.Program) -> None:
        options = functorch_config.get_config_copy()
        with functorch_config.patch({name: True} if name in options else {}):
            assert capture(*example()).program == plain

    @pytest.mark.slow
    def test_from_the_environment(self, plain: ir.Program) -> None:
        """Runs a process in which environment variables configure Inductor before its import."""
        names = (
            "FREEZING",
            "CPP_WRAPPER",
            "GRAPH_PARTITION",
            "MAX_AUTOTUNE",
            "MAX_AUTOTUNE_GEMM",
            "NAN_ASSERTS",
        )
        variables = {f"TORCHINDUCTOR_{name}": "1" for name in names} | {"TORCHINDUCTOR_SIZE_ASSERTS": "0"}
        got = subprocess.run(
            [sys.executable, "-W", "ignore", __file__],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        configuration, _, text = got.stdout.partition("\n")
        assert configuration == "True True False"
        assert text == print_program(plain)

    def test_a_convolution_and_a_multiplication_keep_plain_weights(self, plain: ir.Program) -> None:
        """Without freezing, Inductor does not pack weights, and calls no operator that accepts packed
        weights."""
        assert {e.name.split("::")[0] for e in plain.externs} == {"aten"}
        assert {c.value.name for c in plain.constants} == {
            f"{layer}.{part}" for layer in ("linear", "convolution") for part in ("weight", "bias")
        }

    def test_recurrent_modules_keep_plain_weights(self, equals_eager: Check) -> None:
        """Eager mode calls a fused operator of oneDNN for an LSTM, which accepts plain weights."""
        torch.manual_seed(0)
        model, x = nn.LSTM(3, 4, bidirectional=True).eval(), torch.randn(2, 5, 3)
        with inductor_config.patch({"freezing": True, "cpp.weight_prepack": True}):
            artifact = capture(model, (x,))
        assert {e.name for e in artifact.program.externs} == {"aten::mkldnn_rnn_layer"}
        equals_eager(artifact, model, x)


def test_torch_compile_is_pinned_too(monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[ir.Program] = []
    python = type(emitter("python"))
    compile = python.compile

    def record(self: Any, artifact: Artifact, *args: Any) -> Any:  # Any: the emitter's own types
        programs.append(artifact.program)
        return compile(self, artifact, *args)

    monkeypatch.setattr(python, "compile", record)
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), torch.randn(2, 4)
    settings = {k: CHANGED[k] for k in ("freezing", "graph_partition", "cpp_wrapper", "memory_planning")}
    for changed in ({}, settings):
        torch._dynamo.reset()
        with torch.no_grad(), inductor_config.patch(changed):
            torch.testing.assert_close(torch.compile(model, backend="wrapper_ir")(x), model(x))
    assert len(programs) == 2
    assert programs[0] == programs[1]


class TestTable:
    def test_pins_are_options_that_inductor_has(self) -> None:
        """Inductor ignores unknown names, so a typo would pin nothing."""
        unknown = set(inductor_patches(CaptureOptions())) - set(inductor_config.get_config_copy())
        assert unknown <= {n for n, since in SINCE.items() if Version(torch.__version__) < Version(since)}
        assert set(functorch_patches()) <= set(functorch_config.get_config_copy())

    def test_every_pin_differs_from_what_the_tests_set(self) -> None:
        """Each pin is among the settings that the tests above change."""
        pinned = inductor_patches(CaptureOptions())
        changed = {name for name, value in CHANGED.items() if name in pinned and pinned[name] != value}
        padding = {name for name in pinned if "pad" in name and name != "can_inplace_pad_graph_input"}
        followed = {"aot_inductor.debug_intermediate_value_printer"}  # by the pass `debug-values`
        assert set(pinned) - changed == padding | followed | {"fx_graph_remote_cache"}  # a service


SINCE = {
    "alignment_asserts_inputs": "2.15",
    "combo_kernel_compile_time_autotune": "2.14",
    "cpp.enable_kernel_context_guard": "2.14",
    "distributed_max_autotune_gemm": "2.12",
    "epilogue_fusion_user_defined_triton_kernel": "2.12",
}
"""Options that only some supported versions have."""


def main() -> None:
    """Prints Inductor's configuration and then the program, in a separate process."""
    config = inductor_config
    print(config.freezing, config.cpp_wrapper, config.size_asserts)
    print(print_program(capture(*example()).program), end="")


if __name__ == "__main__":
    main()
