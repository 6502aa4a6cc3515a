"""Dynamic shapes: symbols with ranges and hints, defined from inputs, checked, solved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from inductor_frontend import capture
from inductor_frontend.errors import CaptureError
from tests.common.torch_versions import needs_any_slice, since
from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError
from wrapper_ir.plugins.registry import emitter, machine
from wrapper_ir_runtime.interp import call

Check = Callable[..., None]


def test_symbols_are_declared_and_defined(equals_eager: Check) -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    artifact = capture(model, (torch.randn(3, 8),), dynamic_shapes=({0: Dim("b", min=2, max=64)},))
    (symbol,) = artifact.program.symbols
    assert (symbol.backed, symbol.lower, symbol.upper, symbol.hint) == (True, 2, 64, 3)
    (define,) = [op for op in artifact.program.main.body if isinstance(op, ir.Define)]
    assert define.symbol == symbol.name
    for batch in (2, 3, 17, 64):
        equals_eager(artifact, model, torch.randn(batch, 8))


def test_promised_ranges_are_checked() -> None:
    model = nn.Linear(8, 4)
    artifact = capture(model, (torch.randn(5, 8),), dynamic_shapes=({0: Dim("b", min=4, max=6)},))
    assert sum(isinstance(op, ir.AssertExpr) for op in artifact.program.main.body) == 2
    for batch in (3, 7):
        with pytest.raises(ExecutionError, match="out of range"):
            call(artifact, machine("torch"), (torch.randn(batch, 8),))


def test_sizes_shared_by_inputs_are_checked() -> None:
    b = Dim("b", min=2, max=64)
    args = torch.randn(5, 8), torch.randn(5, 8)
    artifact = capture(lambda x, y: x + y, args, dynamic_shapes=({0: b}, {0: b}))
    with pytest.raises(ExecutionError):
        call(artifact, machine("torch"), (torch.randn(5, 8), torch.randn(6, 8)))


def test_two_symbols(equals_eager: Check) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y]).reshape(-1) + x.size(0)

    shapes = ({0: Dim("a", min=2, max=9)}, {0: Dim("b", min=2, max=9)})
    artifact = capture(function, (torch.randn(3, 4), torch.randn(5, 4)), dynamic_shapes=shapes)
    for a, b in ((3, 5), (7, 2), (2, 2)):
        equals_eager(artifact, function, torch.randn(a, 4), torch.randn(b, 4))


def test_compound_sizes_are_solved(equals_eager: Check) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 2, 4).sum(1)

    artifact = capture(function, (torch.randn(6, 4),), dynamic_shapes=({0: 2 * Dim("half", min=2, max=50)},))
    for half in (2, 3, 20):
        equals_eager(artifact, function, torch.randn(2 * half, 4))
    with pytest.raises(ExecutionError):
        call(artifact, machine("torch"), (torch.randn(7, 4),))


def test_scalar_inputs(equals_eager: Check) -> None:
    def function(x: torch.Tensor, n: int) -> torch.Tensor:
        return x.expand(n, 4).sum(0) * n

    artifact = capture(function, (torch.randn(4), 3), dynamic_shapes=(None, Dim.DYNAMIC))
    for n in (3, 5, 11):
        equals_eager(artifact, function, torch.randn(4), n)


def test_size_outputs(equals_eager: Check) -> None:
    def function(x: torch.Tensor) -> tuple[int, int, torch.Tensor]:
        return x.size(0), x.size(0) * 2 + 1, x + 1

    artifact = capture(function, (torch.randn(4),), dynamic_shapes=({0: Dim("n", min=2, max=99)},))
    equals_eager(artifact, function, torch.randn(4))
    equals_eager(artifact, function, torch.randn(9))


class TestUnbacked:
    """Sizes and numbers that are known only at run time."""

    def test_nonzero(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return x.nonzero() * 2

        artifact = capture(function, (torch.tensor([0.0, 1.0, 2.0]),))
        assert [s.backed for s in artifact.program.symbols] == [False]
        equals_eager(artifact, function, torch.tensor([0.0, 1.0, 2.0]))
        equals_eager(artifact, function, torch.tensor([1.0, 1.0, 2.0]))

    def test_unique(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor) -> Any:
            return torch.unique(x) + 1

        artifact = capture(function, (torch.tensor([0.0, 1.0, 2.0, 1.0]),))
        equals_eager(artifact, function, torch.tensor([3.0, 1.0, 2.0, 1.0]))

    def test_item_as_a_size(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            k: Any = n.item()
            torch._check(k >= 2)  # type: ignore[no-untyped-call]  # torch's
            torch._check(k <= x.size(0))  # type: ignore[no-untyped-call]  # torch's
            return x[:k] * 2

        artifact = capture(function, (torch.randn(5), torch.tensor(3)))
        equals_eager(artifact, function, torch.randn(5), torch.tensor(4))
        with pytest.raises(ExecutionError):
            call(artifact, machine("torch"), (torch.randn(5), torch.tensor(9)))

    def test_item_as_an_index(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            k: Any = n.item()
            torch._check(k >= 0)  # type: ignore[no-untyped-call]  # torch's
            torch._check(k < x.size(0))  # type: ignore[no-untyped-call]  # torch's
            return x[k] + 1

        artifact = capture(function, (torch.randn(5, 3), torch.tensor(3)))
        equals_eager(artifact, function, torch.randn(5, 3), torch.tensor(0))

    def test_float_item(self, equals_eager: Check) -> None:
        def function(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
            return torch.full((2,), s.item()) + x

        artifact = capture(function, (torch.randn(2), torch.tensor(3.5)))
        equals_eager(artifact, function, torch.randn(2), torch.tensor(-1.25))


def _all_but_the_first(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[1:] = 0
    return y


def _every_other(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[::2] = 0
    return y


def _the_last_two(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[-2:] = 0
    return y


def _the_second_and_third(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[1:3].mul_(2)
    return y


def _of_a_transpose(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.t()[1:] = 0
    return y


def _shifted(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    y[1:] = x[:-1]
    return y


def _between_two_ends(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[-3:-1] = 1
    return y


def _of_complex_diagonal(x: torch.Tensor) -> torch.Tensor:
    y = x.to(torch.complex64)
    y.diagonal().add_(1)
    return torch.view_as_real(y)


_SLICES = {
    f.__name__: f
    for f in (
        _all_but_the_first,
        _every_other,
        _the_last_two,
        _the_second_and_third,
        _of_a_transpose,
        _shifted,
        _between_two_ends,
        _of_complex_diagonal,
    )
}


@pytest.mark.slow
@needs_any_slice
def test_slices_of_any_size_are_assigned(equals_eager: Check) -> None:
    """The order of a slice's ends and the size is unknown."""

    def function(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {name: f(x) for name, f in _SLICES.items()}

    artifact = capture(function, (torch.randn(5, 6),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    for sizes in ((5, 6), (9, 4), (4, 3), (4, 9)):
        equals_eager(artifact, function, torch.randn(sizes))


@pytest.mark.skipif(since("2.12"), reason="newer torch lowers them")
def test_older_torch_asks_for_bounds() -> None:
    with pytest.raises(
        CaptureError, match=r"(?s)FE104.*hint: slice_1 cuts a dimension of size s\d+: give it bounds"
    ):
        capture(_all_but_the_first, (torch.randn(5, 6),), dynamic_shapes=({0: Dim.AUTO},))
    bounded = ({0: Dim("rows", min=2, max=64)},)
    assert capture(_all_but_the_first, (torch.randn(5, 6),), dynamic_shapes=bounded).program.symbols


def _chunks(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    for i, piece in enumerate(y.chunk(2)):
        piece.mul_(i + 2)
    return y


def _pieces_of_an_input(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    first, last = x.chunk(2)
    first.add_(1)
    return first, last


def _splits(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    for i, piece in enumerate(torch.split(y, 3)):
        piece.add_(i)
    return y


def _halves(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    for i, piece in enumerate(y.tensor_split(2)):
        piece.add_(i)
    return y


def _thirds(x: torch.Tensor) -> torch.Tensor:
    y = x.t().clone()
    for i, piece in enumerate(y.tensor_split(3, -1)):
        piece.add_(i)
    return y


def _columns(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    for i, column in enumerate(y.unbind(1)):
        column.mul_(i)
    return y


def _columns_of_chunks(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    for i, column in enumerate(c for chunk in y.chunk(2) for c in chunk.unbind(-1)):
        column.add_(i)
    return y


def _in_a_branch(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch.cond(x.sum() > 0, lambda x: _chunks(x) + _columns(x), lambda x: x - 1, (x,))
    return result


def _assigned(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 0] = 3
    y[:, 1].copy_(y[:, 2])
    y[:, None].expand(-1, 3, -1)[:, 1].mul_(2)
    return y


_PIECES: dict[Callable[[torch.Tensor], object], tuple[int, ...]] = {
    _chunks: (8, 7, 2, 3, 100),
    _pieces_of_an_input: (8, 7, 2),
    _splits: (8, 7, 9),
    _halves: (8, 7, 1),
    _thirds: (9, 8, 7, 1),
    _columns: (8, 7, 1),
    _columns_of_chunks: (8, 7, 2),
    _in_a_branch: (8, 7, 3),
    _assigned: (8, 7, 1),
}
"""Writes to pieces of a tensor, for numbers of rows with equally many pieces, so that one program serves
all."""


@pytest.mark.slow
@pytest.mark.parametrize("function", _PIECES)
def test_pieces_of_any_size_are_written(
    function: Callable[[torch.Tensor], object], equals_eager: Check
) -> None:
    """Programs captured with a full and with a shorter last piece accept each other's sizes."""
    first, second, *others = _PIECES[function]
    stock = torch.compile(function, dynamic=True)
    for example in (first, second):
        artifact = capture(function, (torch.randn(example, 4),), dynamic_shapes=({0: Dim.DYNAMIC},))
        for rows in (first, second, *others):
            x = torch.randn(rows, 4)
            equals_eager(artifact, function, x)
            torch.testing.assert_close(stock(x.clone()), function(x.clone()))


def test_another_number_of_pieces_is_refused() -> None:
    artifact = capture(_splits, (torch.randn(8, 4),), dynamic_shapes=({0: Dim.DYNAMIC},))
    with pytest.raises(ExecutionError, match=r"WIR920.*captured for: \(.* \+ 2\)//3 == 3"):
        emitter("python").compile(artifact)(torch.randn(6, 4))


def test_pieces_of_zero_rows_keep_their_number(equals_eager: Check) -> None:
    artifact = capture(_chunks, (torch.randn(0, 4),), dynamic_shapes=({0: Dim.AUTO},))
    equals_eager(artifact, _chunks, torch.randn(0, 4))


def test_an_exported_program_keeps_its_graph() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return _in_a_branch(_chunks(x))

    program = torch.export.export(Model(), (torch.randn(8, 4),), dynamic_shapes=({0: Dim.DYNAMIC},))
    before = [m.code for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    capture(program, ())
    assert before == [m.code for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
