"""Checks of inputs that a program contains or omits, and symbols that only torch.compile creates."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.decorators import mark_dynamic, mark_unbacked
from torch.export import Dim

from inductor_frontend import CaptureOptions, capture
from tests.common.symbol_runs import check, compiled_programs, runs_of, series
from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError

DYNAMIC = Dim.DYNAMIC
RANGE = "out of range"
EMPTY = CaptureOptions(empty_sizes=True)


def six_fold(x: Tensor) -> Tensor:
    check(x.shape[0] % 6 == 0, lambda: "six rows at a time")
    return x


class TestBackend:
    """Values that only torch.compile makes symbolic."""

    def test_numbers_become_dynamic_by_themselves(self) -> None:
        def function(x: Tensor, n: int) -> Any:
            return x.expand(n, 4).t(), n + 1

        compiled = torch.compile(function, backend="wrapper_ir")
        with compiled_programs() as programs:
            for n in (2, 3, 5, 9):
                torch.testing.assert_close(compiled(series(4), n), function(series(4), n))
        assert [len(p.symbols) for p in programs] == [0, 1]

    @pytest.mark.conformance
    def test_floats(self) -> None:
        def function(x: Tensor, s: float) -> Any:
            return x * s + s

        compiled = torch.compile(function, backend="wrapper_ir", dynamic=True)
        with torch._dynamo.config.patch(specialize_float=False), compiled_programs() as programs:
            for s in (2.5, 3.5, -1.25):
                torch.testing.assert_close(compiled(series(4), s), function(series(4), s))
        assert len(programs) == 1  # to which the float is a tensor

    def test_marked_sizes_keep_their_ranges(self) -> None:
        def function(x: Tensor) -> Any:
            return x.t(), x.shape[0] * 2

        compiled = torch.compile(function, backend="wrapper_ir")
        with compiled_programs() as programs:
            for n in (5, 9):
                x = series(n, 3)
                mark_dynamic(x, 0, min=3, max=20)
                torch.testing.assert_close(compiled(x), function(x))
        ((symbol,),) = [p.symbols for p in programs]
        assert (symbol.lower, symbol.upper) == (3, 20)

    def test_unbacked_inputs(self) -> None:
        def function(x: Tensor, y: Tensor) -> Any:
            return x.t() @ y, x.shape[0] + 1

        compiled = torch.compile(function, backend="wrapper_ir")
        with compiled_programs() as programs:
            for n in (5, 1, 0, 7):
                x, y = series(n, 2), series(n, 3)
                for tensor in (x, y):
                    mark_unbacked(tensor, 0)
                torch.testing.assert_close(compiled(x, y), function(x, y))
        assert len(programs) == 1
        assert not any(s.backed for s in programs[0].symbols)
        x, y = series(5, 2), series(6, 3)
        for tensor in (x, y):
            mark_unbacked(tensor, 0)
        with pytest.raises(Exception, match=r"size\(\)\[0\]"):  # Dynamo's guard
            compiled(x, y)


class TestChecks:
    """Checks of inputs that a program contains or omits."""

    def test_empty_sizes_are_an_option(self) -> None:
        function = lambda x: x.t()  # noqa: E731
        refusing = runs_of(capture(function, (series(4, 2),), dynamic_shapes=({0: DYNAMIC},)))
        for run in refusing.values():
            with pytest.raises(ExecutionError, match="size 0 of input x is out of range"):
                run(series(0, 2))
        artifact = capture(function, (series(4, 2),), dynamic_shapes=({0: DYNAMIC},), options=EMPTY)
        for run in runs_of(artifact).values():
            assert run(series(0, 2)).shape == (2, 0)

    def test_a_size_that_would_be_negative_is_refused(self) -> None:
        def function(x: Tensor) -> Tensor:
            return x.view(-1, 2)[:-1]

        shapes = ({0: 2 * Dim("half", min=1, max=40)},)
        artifact = capture(function, (series(8),), dynamic_shapes=shapes, options=EMPTY)
        for run in runs_of(artifact).values():
            torch.testing.assert_close(run(series(4)), function(series(4)))

    def test_torch_takes_sizes_for_two_at_least(self) -> None:
        """The consequences for a program that was exported before are unknown; capture omits the check."""

        class Model(torch.nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return x.t()

        shapes = ({0: DYNAMIC},)
        exported = torch.export.export(Model(), (series(4, 2),), dynamic_shapes=shapes, strict=False)
        for run in runs_of(capture(exported, ())).values():
            with pytest.raises(ExecutionError, match=RANGE):
                run(series(1, 2))
        for run in runs_of(capture(Model(), (series(4, 2),), dynamic_shapes=shapes)).values():
            assert run(series(1, 2)).shape == (2, 1)

    def test_assertions_are_an_option(self) -> None:
        options = CaptureOptions(scalar_asserts=False)
        artifact = capture(six_fold, (series(12),), dynamic_shapes=({0: DYNAMIC},), options=options)
        assert not any(isinstance(op, ir.AssertExpr) for op in artifact.program.main.body)

    def test_what_always_holds_is_not_checked(self) -> None:
        def function(x: Tensor) -> Tensor:
            check(x.shape[0] * 2 >= 2)
            return x.t()

        artifact = capture(function, (series(4, 2),), dynamic_shapes=({0: Dim("n", min=2, max=9)},))
        bounds = [op for op in artifact.program.main.body if isinstance(op, ir.AssertExpr)]
        assert len(bounds) == 2
        assert sum(isinstance(op, ir.Define) for op in artifact.program.main.body) == 1
