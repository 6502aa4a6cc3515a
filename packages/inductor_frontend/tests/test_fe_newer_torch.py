"""Features of torch since 2.14: captured if the IR has a form for them, otherwise refused by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from packaging.version import Version
from torch import Tensor

import inductor_frontend
from inductor_frontend.convert import to_dtype
from inductor_frontend.errors import CaptureError
from inductor_frontend.record.wrapper import RecordingWrapper
from inductor_frontend.torch_patches._compat import SHALLOW_COPY
from py_wrapper import compile
from wrapper_ir import ir
from wrapper_ir.errors import WirError

pytestmark = pytest.mark.skipif(Version(torch.__version__) < Version("2.14"), reason="torch 2.14 brings it")

X = torch.rand(4, 3)

# Any in this file: torch.switch, which older versions lack.


class Chosen(torch.nn.Module):
    """Selects one of three branches, which read two tensors."""

    def forward(self, index: Tensor, x: Tensor) -> Any:
        switch: Any = importlib.import_module("torch._higher_order_ops.switch").switch
        branches: tuple[Callable[..., Tensor], ...] = (
            lambda a, b: a.sin() + b,
            lambda a, b: a * 2 - b,
            lambda a, b: a @ b.t() @ b,
        )
        return switch(index, branches, (x, x.cos()))


class TestSwitch:
    def test_every_branch(self) -> None:
        model = Chosen()
        captured = inductor_frontend.capture(model, (torch.tensor(1), X))
        switches = list(captured.program.ops_of(ir.Switch))
        assert [len(op.branches) for op in switches] == [3]
        assert not ir.is_two_way(switches[0])
        run = compile(captured)
        for index in (-1, 0, 1, 2, 7):  # torch.switch takes the nearest branch
            torch.testing.assert_close(run(torch.tensor(index), X), model(torch.tensor(index), X))

    def test_the_condition_of_two_branches_stays_a_truth(self) -> None:
        class Either(torch.nn.Module):
            def forward(self, flag: Tensor, x: Tensor) -> Any:
                return torch.cond(flag, lambda a: a.sin(), lambda a: a * 2, (x,))

        captured = inductor_frontend.capture(Either(), (torch.tensor(True), X))
        (op,) = captured.program.ops_of(ir.Switch)
        assert ir.is_two_way(op)
        run = compile(captured)
        for flag in (True, False):
            torch.testing.assert_close(run(torch.tensor(flag), X), X.sin() if flag else X * 2)


@pytest.mark.parametrize("shape", [(4, 3), (3, 2, 2), (5,)])
def test_data_that_is_replaced(shape: tuple[int, ...]) -> None:
    """Older versions lower `x.data = y` to the same operator as `x.set_(y)`."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        x.data = y * 2
        return x + 1

    assert SHALLOW_COPY.__name__ == "ShallowCopyDataKernel"
    y, storages = torch.rand(shape), []
    for run in (function, torch.compile(function, backend="wrapper_ir")):
        x = X.clone()
        storages.append((run(x, y), x))
    torch.testing.assert_close(storages[0], storages[1])


class TestRefusals:
    def test_elements_of_a_new_type(self) -> None:
        new: Any = vars(torch)["bcomplex32"]
        with pytest.raises(WirError, match=r"FE305.*bcomplex32"):
            to_dtype(new)

    def test_a_memory_pool(self) -> None:
        with pytest.raises(CaptureError, match=r"FE202.*separate memory pool, on CUDA device 1"):
            RecordingWrapper.codegen_cuda_mempool_enter(RecordingWrapper.__new__(RecordingWrapper), (0, 1))

    def test_a_region_with_options_of_its_own(self) -> None:
        options: Any = vars(torch.compiler)["NestedCompileRegionOptions"]
        region: Any = torch.compiler.nested_compile_region
        with torch._dynamo.config.patch(enable_invoke_subgraph_regional_compile=True):
            configured = region(
                lambda x: x.sin(), options=options(inductor_config_patches={"max_autotune": False})
            )

        class Held(torch.nn.Module):
            def forward(self, x: Tensor) -> Any:
                return configured(x) + configured(x)

        with pytest.raises(CaptureError, match=r"FE202.*separate options: max_autotune"):
            inductor_frontend.capture(Held(), (X,))
