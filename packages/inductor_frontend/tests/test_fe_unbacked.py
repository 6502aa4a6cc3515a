"""Unbacked symbols: numbers read from tensors, sizes of results, data-dependent slices; and checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from inductor_frontend import CaptureError, capture
from tests.common.symbol_runs import (
    Case,
    assert_golden,
    check,
    check_capture,
    check_compile,
    check_is_size,
    check_value,
    compiled_programs,
    number,
    runs_of,
    series,
)
from tests.common.torch_versions import since
from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError

GOLDEN = Path(__file__).parent / "golden"
DYNAMIC = Dim.DYNAMIC
INDEX = "a selected index is out of range"


def ints(*values: int) -> Tensor:
    return torch.tensor(values)


def arithmetic(n: Tensor) -> Any:
    u: Any = n.item()
    return u, u * 2, u // 2, u % 3, -u, u > 1, u / 4


def split_by(x: Tensor, sizes: Tensor) -> Any:
    parts: Any = sizes.tolist()
    check(sum(parts) == x.shape[0], lambda: "the parts make up the whole")
    for part in parts:
        check(part >= 0)
    return torch.split(x, parts)


def prefix(x: Tensor, n: Tensor) -> Tensor:
    k: Any = n.item()
    check(k >= 0)
    check(k <= x.shape[0], lambda: "no more than there are")
    return x[:k].t()


def window(x: Tensor, begin: Tensor, length: Tensor) -> Tensor:
    b: Any = begin.item()
    n: Any = length.item()
    check(b >= 0)
    check(n >= 0)
    check(b + n <= 7)
    return x.narrow(0, b, n).t()


def as_size(n: Tensor) -> Any:
    k: Any = n.item()
    check_is_size(k)
    return k


def value_check(n: Tensor) -> Any:
    k: Any = n.item()
    check_value(k > 3, lambda: "k beyond three")
    check(k < 100, lambda: f"k below a hundred, not {k}")
    return k * 2


def float_check(s: Tensor) -> Any:
    f: Any = s.item()
    check(f > 0.5, lambda: "more than a half")
    return f * 2


def unused_check(x: Tensor, n: Tensor) -> Tensor:
    check(n.item() > 3, lambda: "more than three")
    return x.t()


def unused_float_check(x: Tensor, s: Tensor) -> Tensor:
    check(s.item() > 0.5, lambda: "more than a half")
    return x.t()


def same_length(n: Tensor, x: Tensor) -> Tensor:
    k: Any = n.item()
    check(k == x.shape[0], lambda: "n counts the rows of x")
    return x.view(k, 2)


def squares(x: Tensor) -> Tensor:
    y = x.nonzero().squeeze(1)
    check(y.shape[0] % 2 == 0, lambda: "in pairs")
    return y.view(-1, 2)


def mask(x: Tensor) -> Tensor:
    return torch.masked_select(x, x > 0) * 2


def matrix(n: Tensor, x: Tensor) -> Tensor:
    return torch.zeros(as_size(n), 3) + x


CASES = [
    # --- numbers read from tensors
    Case(name="int", function=arithmetic, args=(number(3),), others=((number(-7),), (number(0),))),
    Case(name="small_int", function=lambda n: n.item() + 1, args=(torch.tensor([250], dtype=torch.uint8),),
         others=((torch.tensor([3], dtype=torch.uint8),),)),
    Case(name="float", function=lambda s: (s.item(), s.item() * 2 + 1), args=(number(2.5),),
         others=((number(-0.25),), (number(float("inf")),))),
    Case(name="bool", function=lambda b: b.item(), args=(number(True),),
         others=((number(False),),)),
    Case(name="half", function=lambda s: s.item() * 2, args=(torch.tensor([3.5], dtype=torch.float16),),
         others=((torch.tensor([-8.0], dtype=torch.float16),),)),
    Case(name="list", function=lambda s: s.tolist()[0] * s.tolist()[1], args=(ints(2, 3),), others=((ints(-1, 5),),)),
    Case(name="in_a_kernel", function=lambda x: x / x.max().item(), args=(series(4, 4),), others=((series(4, 4) * 3,),),
         slow=True),
    # --- sizes of results
    Case(name="nonzero", function=lambda x: (x.nonzero(), x.nonzero().shape[0] * 2), args=(torch.tensor([0.0, 1.0, 2.0]),),
         others=((torch.ones(3),), (torch.zeros(3),), (torch.tensor([0.0, 5.0, 0.0]),))),
    Case(name="nonzero_of_any_size", function=lambda x: x.nonzero().t(), dynamic=({0: DYNAMIC},),
         args=(torch.tensor([0.0, 1.0, 2.0]),), others=((torch.ones(7),), (torch.zeros(2),))),
    Case(name="where", function=lambda x: torch.where(x > 0)[0].view(1, -1), args=(series(5),), others=((-series(5),),),
         slow=True),
    Case(name="unique", function=lambda x: torch.unique(x, return_inverse=True, return_counts=True),
         args=(torch.tensor([0.0, 1.0, 2.0, 1.0]),), others=((torch.ones(4),), (torch.arange(4.0),))),
    Case(name="unique_rows", function=lambda x: torch.unique(x, dim=0).t(),
         args=(torch.tensor([[0.0, 1.0], [0.0, 1.0], [2.0, 1.0]]),), others=((torch.ones(3, 2),),)),
    Case(name="unique_consecutive", function=lambda x: torch.unique_consecutive(x, return_counts=True),
         args=(torch.tensor([0.0, 1.0, 1.0, 2.0]),), others=((torch.ones(4),),)),
    Case(name="masked_select", function=mask, args=(series(6),), others=((series(6).abs(),), (-series(6).abs(),))),
    Case(name="bool_index", function=lambda x: x[x[:, 0] > 0] @ x.t(), args=(series(6, 2),), slow=True,
         others=((series(6, 2).abs(),), (-series(6, 2).abs(),))),
    Case(name="bincount", function=lambda x: torch.bincount(x).view(1, -1), args=(ints(1, 2, 2, 4),),
         others=((ints(0, 0, 0, 0),),)),
    Case(name="repeat_interleave", function=lambda x, n: x.repeat_interleave(n, dim=0).t(),
         args=(series(3, 2), ints(1, 2, 3)), others=((series(3, 2), ints(1, 0, 1)), (series(3, 2), ints(0, 0, 0)))),
    Case(name="two_masks", function=lambda x, y: x[x > 0][:, None] * y[y > 0][None], args=(series(6), series(5)),
         others=((series(6).abs(), series(5)), (-series(6).abs(), series(5))), slow=True),
    Case(name="joined", function=lambda x: torch.cat([x[x > 0], x]), args=(series(6),), others=((-series(6).abs(),),),
         slow=True),
    # --- sizes made of data
    Case(name="full", function=lambda n: torch.full((as_size(n),), 2.5), args=(number(4),),
         others=((number(1),), (number(0),)), bad=(((number(-1),), "WIR920"),)),
    Case(name="matrix", function=matrix, args=(number(4), series(3)), others=((number(1), series(3)), (number(0), series(3))),
         slow=True),
    Case(name="arange", function=lambda n: torch.arange(as_size(n)), args=(number(4),), others=((number(1),), (number(0),)),
         slow=True),
    Case(name="eye", function=lambda n: torch.eye(as_size(n)), args=(number(3),), others=((number(1),), (number(0),)),
         slow=True),
    Case(name="expand", function=lambda x, n: x.expand(as_size(n), 3).t(), args=(series(3), number(4)),
         others=((series(3), number(1)), (series(3), number(0)))),
    Case(name="split", function=split_by, args=(series(6, 2), ints(2, 1, 3)),
         others=((series(6, 2), ints(1, 4, 1)), (series(6, 2), ints(0, 6, 0))),
         bad=(((series(6, 2), ints(1, 1, 1)), "the parts make up the whole"), ((series(6, 2), ints(-1, 4, 3)), "WIR920"))),
    Case(name="tensor_split", function=lambda x, i: torch.tensor_split(x, i), args=(series(9), ints(2, 5)),
         others=((series(9), ints(1, 8)),)),
    Case(name="topk", function=lambda x, n: torch.topk(x, as_size(n))[1].view(1, -1), args=(series(6), number(4)),
         others=((series(6), number(1)), (series(6), number(6)))),
    # --- slices and selections by data
    Case(name="prefix", function=prefix, args=(series(5, 2), number(3)),
         others=((series(5, 2), number(5)), (series(5, 2), number(1)), (series(5, 2), number(0))),
         bad=(((series(5, 2), number(9)), "no more than there are"), ((series(5, 2), number(-1)), "WIR920"))),
    Case(name="any_prefix", function=lambda x, n: x[: n.item()].t(), args=(series(5, 2), number(3)),
         others=tuple((series(5, 2), number(n)) for n in (-2, 0, 9, -9))),
    Case(name="any_suffix", function=lambda x, n: x[n.item() :].t(), args=(series(5, 2), number(3)),
         others=tuple((series(5, 2), number(n)) for n in (-2, 0, 9, -9))),
    Case(name="any_slice", function=lambda x, m, n: x[m.item() : n.item()].t(), args=(series(9, 2), number(3), number(6)),
         others=((series(9, 2), number(-4), number(-1)), (series(9, 2), number(7), number(2)))),
    Case(name="any_step", function=lambda x, n: x[: n.item() : 2].t(), args=(series(9, 2), number(3)),
         others=tuple((series(9, 2), number(n)) for n in (8, -3, 0))),
    Case(name="prefix_of_any_size", function=lambda x, n: x[: n.item()].t(), dynamic=({0: DYNAMIC}, None),
         args=(series(9, 2), number(3)), others=((series(5, 2), number(4)), (series(2, 2), number(9)))),
    Case(name="narrow", function=window, args=(series(7, 2), number(2), number(3)),
         others=((series(7, 2), number(0), number(7)), (series(7, 2), number(6), number(0))),
         bad=(((series(7, 2), number(5), number(4)), "WIR920"),)),
    Case(name="select", function=lambda x, n: x[n.item()].view(1, 3), args=(series(5, 3), number(3)),
         others=((series(5, 3), number(0)), (series(5, 3), number(-1))),
         bad=(((series(5, 3), number(5)), INDEX), ((series(5, 3), number(-6)), INDEX))),
    Case(name="select_in_a_kernel", function=lambda x, n: x[n.item()] + 1, args=(series(5, 3), number(3)),
         others=((series(5, 3), number(-5)),), bad=(((series(5, 3), number(7)), INDEX),), slow=True),
    Case(name="index_in_a_kernel", function=lambda x, n: x[torch.full((2,), n.item())] + 1, args=(series(5), number(3)),
         others=((series(5), number(0)),), slow=True),
    # --- checks
    Case(name="checked_value", function=value_check, args=(number(4),), others=((number(99),),),
         bad=(((number(2),), "k beyond three"), ((number(100),), "k below a hundred"))),
    Case(name="checked_float", function=float_check, args=(number(2.5),), bad=(((number(0.25),), "more than a half"),),
         needs=("2.13", "checks of floats are refused or dropped")),
    Case(name="unused_check", function=unused_check, args=(series(3, 2), number(4)), others=((series(3, 2), number(9)),),
         bad=(((series(3, 2), number(2)), "more than three"),)),
    Case(name="unused_float_check", function=unused_float_check, args=(series(3, 2), number(4.0)),
         bad=(((series(3, 2), number(0.25)), "more than a half"),), needs=("2.13", "checks of floats are refused or dropped")),
    Case(name="checked_against_a_size", function=same_length, dynamic=(None, {0: DYNAMIC}), args=(number(4), series(4, 2)),
         others=((number(6), series(6, 2)),), bad=(((number(5), series(6, 2)), "n counts the rows of x"),)),
    Case(name="checked_against_a_fixed_size", function=same_length, args=(number(4), series(4, 2)),
         bad=(((number(5), series(4, 2)), "n counts the rows of x"),)),
    Case(name="checked_result", function=squares, args=(torch.tensor([0.0, 1.0, 2.0, 0.0]),),
         others=((torch.zeros(4),), (torch.ones(4),)), bad=(((torch.tensor([0.0, 1.0, 2.0, 3.0]),), "in pairs"),)),
    # --- questions whose answers are only returned
    Case(name="equal", function=lambda x, y: (torch.equal(x, y), x.t()), args=(series(3, 2), series(3, 2)),
         others=((series(3, 2), series(3, 2) + 1),), slow=True),
    Case(name="allclose", function=lambda x, y: (torch.allclose(x, y, atol=0.1), x.t()), slow=True,
         args=(series(3, 2), series(3, 2)), others=((series(3, 2), series(3, 2) + 1),)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", [c.param() for c in CASES])
def test_capture(case: Case) -> None:
    check_capture(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c.param() for c in CASES])
def test_compile(case: Case) -> None:
    check_compile(case, refuses=True)


class TestGoldens:
    """Text of programs, without provenance."""

    @staticmethod
    def item() -> Any:
        return capture(arithmetic, (number(3),))

    @staticmethod
    def slice() -> Any:
        return capture(lambda x, n: x[: n.item()].t(), (series(9, 2), number(3)))

    @staticmethod
    def select() -> Any:
        return capture(lambda x, n: x[n.item()].view(1, 3), (series(5, 3), number(3)))

    @staticmethod
    def unsimplified() -> Any:
        """After the first check, torch knows that n is the size, so that all other checks are True."""

        def function(n: Tensor, x: Tensor) -> Tensor:
            k: Any = n.item()
            check(k == x.shape[0], lambda: "n counts the rows of x")
            check(k >= x.shape[0], lambda: "follows")
            check(k != 3, lambda: "anything but three")
            return x.view(k, 2)

        return capture(function, (number(4), series(4, 2)), dynamic_shapes=(None, {0: DYNAMIC}))

    @pytest.mark.parametrize("name", ["item", "slice", "select", "unsimplified"])
    def test_golden(self, name: str, update_golden: bool) -> None:
        assert_golden(GOLDEN / f"unbacked_{name}.wir.txt", getattr(self, name)().program, update_golden)


class TestMessages:
    """Messages of the author, through both frontends."""

    def test_torch_compile_keeps_them(self) -> None:
        """Before 2.13, Dynamo drops the message: stock torch.compile reports only the condition."""
        compiled = torch.compile(unused_check, backend="wrapper_ir")
        x = series(3, 2)
        with torch._dynamo.config.patch(capture_scalar_outputs=True):
            torch.testing.assert_close(compiled(x, number(5)), x.t())
            with pytest.raises(ExecutionError, match="more than three" if since("2.13") else "u0 >= 4"):
                compiled(x, number(2))

    def test_place_of_the_check(self) -> None:
        program = capture(value_check, (number(5),)).program
        (check, _) = list(program.main.ops_of(ir.AssertExpr))
        (place,) = check.prov.locations
        assert "test_fe_unbacked.py:" in place

    def test_messages_do_not_fix_sizes(self) -> None:
        """The message is formatted while sizes are symbols; a format that needs a number yields no
        message."""

        def function(x: Tensor) -> Tensor:
            n = x.shape[0]
            check(n % 2 == 0, lambda: f"{n:04d} is odd")
            check(n > 2, lambda: f"{n} is too few")
            return x.t()

        artifact = capture(function, (series(4, 2),), dynamic_shapes=({0: DYNAMIC},))
        for run in runs_of(artifact).values():
            torch.testing.assert_close(run(series(6, 2)), series(6, 2).t())
            with pytest.raises(ExecutionError, match="too few"):
                run(series(2, 2))
            with pytest.raises(ExecutionError, match="WIR920"):
                run(series(5, 2))

    def test_check_with_is_left_as_it_was(self) -> None:
        before = torch._check_with
        capture(value_check, (number(5),))
        with pytest.raises(CaptureError):
            capture(lambda x: x + 1 if x.sum() > 0 else x, (series(3),))
        assert torch._check_with is before


class TestRefusals:
    """Models that torch.export cannot trace: the error has the op, its place, and a way out."""

    @pytest.mark.parametrize(
        ("function", "args", "words"),
        [
            (lambda x, y: torch.linalg.lstsq(x, y), (series(5, 3), series(5, 2)), "aten.linalg_lstsq.default depend on data"),
            (lambda x, n: x if n.item() > 1 else -x, (series(3), number(2)), "a decision depends on data: u0 > 1"),
            (lambda x, y: x if torch.equal(x, y) else y, (series(3), series(3)), "a decision depends on data"),
            (lambda x: x if x.sum() > 0 else -x, (series(3),), "a decision depends on data"),
        ],
        ids=["operator", "item", "question", "tensor"],
    )  # fmt: skip
    def test_data_decides(self, function: Any, args: tuple[Any, ...], words: str) -> None:
        with pytest.raises(CaptureError) as caught:
            capture(function, args)
        assert caught.value.code == "FE101"
        assert words in caught.value.message
        assert "test_fe_unbacked.py:" in caught.value.message
        assert "torch.compile(model, backend='wrapper_ir')" in caught.value.hint

    def test_the_way_out_works(self) -> None:
        def function(x: Tensor, y: Tensor) -> Any:
            return torch.linalg.lstsq(x, y).solution.t(), torch.equal(x, y)

        args = series(5, 3), series(5, 2)
        torch.testing.assert_close(torch.compile(function, backend="wrapper_ir")(*args), function(*args))

    def test_promises_that_do_not_hold(self) -> None:
        with pytest.raises(CaptureError, match=r"(?s)FE101.*Constraints violated.*Dim.AUTO"):
            capture(lambda x: x.view(-1, 2), (series(4),), dynamic_shapes=({0: Dim("n", max=9)},))

    def test_the_model_is_named(self) -> None:
        class Undecided(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return x if x.sum() > 0 else -x

        with pytest.raises(CaptureError, match="cannot trace Undecided"):
            capture(Undecided(), (series(3),))


@pytest.mark.conformance
class TestTraining:
    """Sizes that the forward graph defines are inputs of the backward graph."""

    @pytest.mark.parametrize(
        ("function", "others"),
        [(lambda x: x[x > 0] * 2, ()), (lambda x, n: x.repeat_interleave(n) * 2, (ints(1, 0, 2, 1, 1, 3),))],
        ids=["masked", "repeated"],
    )
    def test_gradients(self, function: Any, others: tuple[Tensor, ...]) -> None:
        compiled: Any = torch.compile(function, backend="wrapper_ir")
        with (
            torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
            compiled_programs() as programs,
        ):
            for x in (series(6), series(6).abs(), series(6) - 0.5):
                mine, theirs = (x.clone().requires_grad_() for _ in range(2))
                for result in (compiled(mine, *others), function(theirs, *others)):
                    result.sum().backward()
                torch.testing.assert_close(mine.grad, theirs.grad)
        assert len(programs) == 2
        assert not any(s.backed for p in programs for s in p.symbols)
