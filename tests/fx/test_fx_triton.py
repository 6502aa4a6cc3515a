"""Triton kernels in FX graphs: torch's own form for devices, a kernel runtime's for the interpreter on the
CPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_mutation
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from tests.common.compare import assert_same
from tests.fx.gpu_program import for_a_gpu
from tests.triton.triton_program import PROGRAM, artifact, expected
from wrapper_ir.errors import WirError

HOP = FxOptions(kernel_calls="hop", convention="flat")


def launches(module: fx.GraphModule) -> list[Any]:  # Any: nodes, whose arguments torch types widely
    return [n for n in module.graph.nodes if n.target is triton_kernel_wrapper_mutation]


def test_the_grid_is_floor_divisions_of_nodes() -> None:
    module = fx_converter.convert(for_a_gpu(), HOP)
    module.graph.lint()
    first, second = launches(module)
    ((x, y),) = first.kwargs["grid"]
    assert [getattr(n.target, "__name__", "") for n in (x, y)] == ["sym_min", "neg"]
    assert "s0" in str(x.meta["val"])
    called = {getattr(n.target, "__name__", "") for n in module.graph.nodes if n.op == "call_function"}
    assert called <= {
        "assert_alignment",
        "assert_layout",
        "check_inputs",
        "check_storages",
        "sym_size.int",
        "empty_strided.default",
        "add",
        "floordiv",
        "neg",
        "sym_min",
        "triton_kernel_wrapper_mutation",
        "enter_device",
        "exit_device",
    }
    assert set(first.kwargs["kwargs"]) == {"x_ptr", "y_ptr", "out_ptr", "n"}
    assert set(second.kwargs["kwargs"]) == {"x_ptr", "n"}
    assert first.meta["kernel"] == "add_relu"


def test_config_and_constants_are_in_torchs_tables() -> None:
    first, second = launches(fx_converter.convert(for_a_gpu(), HOP))
    kernel: Any = kernel_side_table.get_kernel(first.kwargs["kernel_idx"])
    (config,) = kernel.configs
    assert (config.kwargs, config.num_warps, config.num_stages) == ({"BLOCK": 256}, 4, 1)
    assert kernel.fn.__name__ == "add_relu"
    assert "tl.maximum(total, 0.0)" in kernel.fn.src
    assert kernel_side_table.get_constant_args(second.kwargs["constant_args_idx"]) == {"scale": 0.5}


def test_kernels_are_entered_once_and_numbers_are_not_stored(tmp_path: Path) -> None:
    module = fx_converter.convert(for_a_gpu(), HOP)
    before = len(kernel_side_table.id_to_kernel)
    fx_converter.save(module, tmp_path / "graph.wir")
    text = wrapper_ir.load(tmp_path / "graph.wir").extensions["fx_graph.json"]
    assert "kernel_idx" not in text
    assert "constant_args_idx" not in text
    again = fx_converter.load(tmp_path / "graph.wir", HOP)
    assert str(again.graph) == str(module.graph)
    assert len(kernel_side_table.id_to_kernel) == before


def test_a_source_that_does_not_load_enters_nothing() -> None:
    before = len(kernel_side_table.id_to_kernel)
    broken = for_a_gpu(PROGRAM.replace("import triton.language as tl", "import triton.gone as tl", 1))
    with pytest.raises(WirError) as caught:
        fx_converter.convert(broken, HOP)
    assert caught.value.code == "FX104"
    assert "add_relu" in caught.value.message
    assert len(kernel_side_table.id_to_kernel) == before


@pytest.mark.parametrize("form", ["direct", "hop"])
@pytest.mark.parametrize("rows", [2, 85])
def test_the_interpreter_runs_graphs_on_the_cpu(form: KernelCalls, rows: int) -> None:
    module = fx_converter.convert(artifact(), FxOptions(kernel_calls=form))
    x, y = torch.randn(rows, 3), torch.randn(rows, 3)
    (result,) = module(x, y)
    assert_same(result, expected(x, y))


def test_a_graph_for_an_absent_device_is_traced_again() -> None:
    """On fake tensors; the nodes that make its device the current one then have no effect."""
    module = fx_converter.convert(for_a_gpu(), HOP)
    with FakeTensorMode(allow_non_fake_inputs=True):
        x, y = (torch.empty(100, device="cuda:0") for _ in range(2))
        again = make_fx(module)(x, y)
    assert [n.kwargs["kernel_idx"] for n in launches(again)] == [
        n.kwargs["kernel_idx"] for n in launches(module)
    ]
    exported = torch.export.export(module, (x, y), strict=False).graph_module
    assert len(launches(exported)) == 2
