"""Constants, state, mutation, aliasing outputs and library calls of every kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from inductor_frontend import ConversionError, capture
from inductor_frontend.constants import ConstantRole
from inductor_frontend.scope.constant_table import ConstantTable
from inductor_frontend.torch_patches._compat import is_effectful
from wrapper_ir import ir
from wrapper_ir.builder import ProgramBuilder
from wrapper_ir.plugins.registry import emitter, machine
from wrapper_ir_runtime.interp import call

Check = Callable[..., None]


class Counter(nn.Module):
    """Counts its calls in a buffer, and adds the count."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.count


class TestState:
    def test_buffers_live_in_the_program(self) -> None:
        artifact = capture(Counter(), (torch.zeros(2),))
        assert [(c.value.name, c.mutable) for c in artifact.program.constants] == [("count", True)]
        assert artifact.signature.write_backs == ()
        run = emitter("python").compile(artifact)
        assert [run(torch.zeros(2))[0].item() for _ in range(3)] == [1.0, 2.0, 3.0]

    def test_capture_leaves_the_model_alone(self) -> None:
        model = Counter()
        run = emitter("python").compile(capture(model, (torch.zeros(2),)))
        run(torch.zeros(2))
        assert model.get_buffer("count").item() == 0.0

    def test_batch_norm_statistics(self) -> None:
        reference = nn.BatchNorm1d(4).train()
        artifact = capture(nn.BatchNorm1d(4).train(), (torch.randn(8, 4),))
        run = emitter("python").compile(artifact)
        for _ in range(3):
            x = torch.randn(8, 4)
            torch.testing.assert_close(run(x), reference(x), rtol=1e-4, atol=1e-5)
        names = {c.value.name for c in artifact.program.constants if c.mutable}
        assert names == {"running_mean", "running_var", "num_batches_tracked"}

    def test_shared_state_is_refused(self) -> None:
        whole = torch.zeros(4)
        roles = {"a": ConstantRole("whole", whole, True), "b": ConstantRole("part", whole[:2], False)}
        with pytest.raises(ConversionError, match=r"FE306.*whole.*part"):
            ConstantTable(ProgramBuilder(), roles)


class TestMutatedInputs:
    def test_input_is_written(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            y.mul_(2)
            return x + y

        x, y = torch.randn(3), torch.randn(3)
        equals_eager(capture(function, (x, y)), function, x, y)

    def test_returned_input_is_the_same_object(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return x.add_(1)

        artifact = capture(function, (torch.zeros(3),))
        assert artifact.signature.bindings == (ir.InputOutput(leaf=0),)
        x = torch.zeros(3)
        assert emitter("python").compile(artifact)(x) is x
        assert x.tolist() == [1, 1, 1]

    def test_returned_view_of_a_written_input_aliases_it(self) -> None:
        def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x.add_(1)
            return x[1:], x.view(-1)

        artifact = capture(function, (torch.zeros(2, 2),))
        assert artifact.signature.bindings == (ir.InputView(index=0, leaf=0), ir.InputView(index=1, leaf=0))
        x = torch.zeros(2, 2)
        row, flat = emitter("python").compile(artifact)(x)
        x.fill_(7)
        assert row.tolist() == [[7, 7]]
        assert flat.tolist() == [7, 7, 7, 7]

    def test_views_of_an_input_written_through(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            x[0].mul_(3)
            return x.sum()

        x = torch.randn(3, 2)
        equals_eager(capture(function, (x,)), function, x)


class TestOutputs:
    def test_every_kind(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor) -> tuple[Any, ...]:
            return x, x.t(), None, 5, True, "name", x * 2

        x = torch.randn(2, 3)
        artifact = capture(function, (x,))
        kinds = [type(b) for b in artifact.signature.bindings]
        constants = [ir.ConstantOutput] * 4
        assert kinds == [ir.InputOutput, ir.InputView, *constants, ir.ResultOutput]
        equals_eager(artifact, function, x)

    def test_outputs_that_alias_each_other(self) -> None:
        def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = x * 2
            return y, y.view(-1), y[1]

        artifact = capture(function, (torch.randn(2, 3),))
        y, flat, row = emitter("python").compile(artifact)(torch.ones(2, 3))
        y.fill_(9)
        assert flat.tolist() == [9] * 6
        assert row.tolist() == [9] * 3

    def test_literal_tensors(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x + torch.tensor([1.0, 2.0]), torch.tensor([3, 4]), torch.tensor(5.0)

        x = torch.randn(2)
        equals_eager(capture(function, (x,)), function, x)


class TestLibraryCalls:
    def test_several_results(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            values, indices = torch.topk(x, 2)
            return values + 1, indices

        x = torch.randn(3, 5)
        artifact = capture(function, (x,))
        unpacked = [op.path for op in artifact.program.main.body if isinstance(op, ir.Unpack)]
        assert unpacked == [(0,), (1,)]
        equals_eager(artifact, function, x)

    def test_single_result_needs_no_unpacking(self, equals_eager: Check) -> None:
        x = torch.randn(3, 5)
        artifact = capture(lambda x: torch.cumsum(x, 1) + 1, (x,))
        assert not any(isinstance(op, ir.Unpack) for op in artifact.program.main.body)
        equals_eager(artifact, lambda x: torch.cumsum(x, 1) + 1, x)

    @pytest.mark.parametrize("reduce", ["sum", "amax", "mean"])
    def test_scatter_reduce(self, equals_eager: Check, reduce: str) -> None:
        def function(x: torch.Tensor, index: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
            return x.scatter_reduce(0, index, src, reduce, include_self=False)

        args = torch.randn(4), torch.tensor([0, 1, 1, 3]), torch.randn(4)
        equals_eager(capture(function, args), function, *args)

    def test_scatter_of_a_number(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return torch.scatter(x, 0, index, 2.5)

        args = torch.randn(4), torch.tensor([0, 2])
        equals_eager(capture(function, args), function, *args)

    def test_index_put_with_optional_indices(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> Any:
            return torch.ops.aten.index_put(x, [None, index], values, True)

        args = torch.randn(3, 4), torch.tensor([1, 1, 3]), torch.randn(3, 3)
        equals_eager(capture(function, args), function, *args)

    def test_complex_views(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return torch.view_as_real(x * x)

        x = torch.randn(3, dtype=torch.complex64)
        equals_eager(capture(function, (x,)), function, x)

    def test_convolution(self, equals_eager: Check) -> None:
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.ConvTranspose2d(4, 2, 3))
        x = torch.randn(2, 3, 8, 8)
        equals_eager(capture(model, (x,)), model, x)

    @pytest.mark.skipif(
        not is_effectful(torch.ops.aten._linalg_check_errors.default), reason="no effect before torch 2.13"
    )
    def test_effectful_operators_are_tagged(self, equals_eager: Check) -> None:
        x = torch.randn(3, 3) + 3 * torch.eye(3)
        artifact = capture(torch.linalg.inv, (x,))
        tags = {e.name: e.tags for e in artifact.program.externs}
        assert ir.ExternTag.EFFECTFUL in tags["aten::_linalg_check_errors"]
        equals_eager(artifact, torch.linalg.inv, x)

    def test_random_operators_are_tagged_and_repeatable(self) -> None:
        artifact = capture(lambda x: torch.rand_like(x), (torch.zeros(4),))
        assert any(ir.ExternTag.RANDOM in e.tags for e in artifact.program.externs)
        results = []
        for _ in range(2):
            torch.manual_seed(3)
            results.append(call(artifact, machine("torch"), (torch.zeros(4),)))
        assert torch.equal(*results)
        assert not torch.equal(results[0], call(artifact, machine("torch"), (torch.zeros(4),)))

    def test_arguments_keep_their_structure(self) -> None:
        artifact = capture(lambda x: torch.cumsum(x, 1, dtype=torch.float64), (torch.randn(2, 3),))
        (op,) = [op for op in artifact.program.main.body if isinstance(op, ir.CallExtern)]
        assert op.target == "aten::cumsum"
        assert "dtype" in dict(op.kwargs)

    def test_custom_operators(self, equals_eager: Check) -> None:
        with torch.library._scoped_library("fe_test", "FRAGMENT") as library:
            library.define("twice(Tensor x, int n) -> (Tensor, Tensor)")
            library.impl("twice", lambda x, n: (x * n, x + n), "CPU")
            library.impl("twice", lambda x, n: (torch.empty_like(x), torch.empty_like(x)), "Meta")

            def function(x: torch.Tensor) -> Any:
                a, b = torch.ops.fe_test.twice(x, 3)
                return a - b

            x = torch.randn(4)
            equals_eager(capture(function, (x,)), function, x)
