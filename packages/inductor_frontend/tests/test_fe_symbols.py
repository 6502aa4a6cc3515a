"""Symbols of inputs: compound sizes, strides and offsets, numbers, sizes as results; and their checks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from inductor_frontend import CaptureOptions, capture
from inductor_frontend.torch_patches._compat import guard_texts
from tests.common.symbol_runs import Case, assert_golden, check, check_capture, check_compile, runs_of, series
from wrapper_ir.errors import ExecutionError

GOLDEN = Path(__file__).parent / "golden"
AUTO, DYNAMIC = Dim.AUTO, Dim.DYNAMIC
N = Dim("n", min=1, max=40)
LAYOUT = "WIR921"
RANGE = "out of range"
OUTSIDE = "outside what the model was captured for"
EMPTY = CaptureOptions(empty_sizes=True)


def sizes_of(x: Tensor) -> tuple[Any, ...]:
    n = x.shape[0]
    return n * 2, n // 2, n % 3, -n // 3, (n + 3) // 4 * 4, n**2, n / 2, n > 3, x


def checked(x: Tensor, y: Tensor) -> Tensor:
    check(x.shape[0] > y.shape[0], lambda: "x is the longer one")
    return x


def written_parts(x: Tensor) -> Tensor:
    """With one row, the parts are empty; torch guards that they are not."""
    y, z = x.clone(), torch.zeros_like(x)
    y[1:].mul_(2)
    y[1:3] += 1
    y[:, 0].fill_(2)
    z[1:] = y[:-1]
    return y + z


def twice_as_long(x: Tensor, y: Tensor) -> Tensor:
    check(x.shape[0] == 2 * y.shape[0], lambda: "two of x for each of y")
    return x.view(2, -1)


def six_fold(x: Tensor) -> Tensor:
    check(x.shape[0] % 6 == 0, lambda: "six rows at a time")
    return x


def same_number(x: Tensor, n: int, m: int) -> Tensor:
    check(n == m, lambda: "one number, twice")
    return x.expand(n, 4)


def attention(m: Tensor, x: Tensor) -> Tensor:
    """The mask has the size of `m`, the scores that of `x`; the trace finds that they are equal."""
    n = torch.arange(m.shape[1])
    causal = (n[None, :] <= n[:, None]) & (m > 0)[:, None, :]
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=causal)


def number_of_rows(x: Tensor, n: int) -> Tensor:
    check(n == x.shape[0], lambda: "n counts the rows")
    return x.view(n, 2)


def nested(d: dict[str, Any]) -> Any:
    return d["a"].t() @ d["b"][0], d["b"][1].shape[0]


def strided_window(x: Tensor) -> Tensor:
    return torch.as_strided(x, (x.shape[0], 2), (4, 1), x.storage_offset())


CASES = [
    # --- sizes that are expressions of one unknown, which is solved for
    Case(
        name="affine", function=lambda x: x.t(), dynamic=({0: 2 * N + 1},), args=(series(7, 3),),
        others=((series(5, 3),), (series(9, 3),)), bad=(((series(8, 3),), LAYOUT), ((series(3, 3),), RANGE)),
    ),
    Case(
        name="multiple", function=lambda x: x.view(4, -1), dynamic=({0: 4 * N},), args=(series(12),),
        others=((series(8),), (series(20),)), bad=(((series(13),), LAYOUT), ((series(4),), RANGE)),
    ),
    Case(
        name="related", function=lambda x, y: y.view(2, -1) @ x, dynamic=({0: N}, {0: 2 * N}),
        args=(series(4, 3), series(8)), others=((series(6, 3), series(12)), (series(1, 3), series(2))),
        bad=(((series(4, 3), series(9)), "WIR920"),),
    ),
    Case(
        name="shifted", function=lambda x, y: x.view(1, -1) @ y[1:].view(-1, 1), dynamic=({0: N}, {0: N + 1}),
        args=(series(4), series(5)), others=((series(7), series(8)), (series(1), series(2))),
        bad=(((series(4), series(6)), "must have same reduction dim"),),
    ),
    Case(
        name="matmul", function=lambda x, y: x.t() @ y.view(x.shape[0], x.shape[1]),
        dynamic=({0: AUTO, 1: AUTO}, {0: AUTO}), args=(series(3, 4), series(12)), options=EMPTY,
        others=((series(5, 2), series(10)), (series(1, 4), series(4)), (series(0, 4), series(0))),
        bad=(((series(3, 4), series(11)), "is invalid for input of size"),),
    ),
    # --- one symbol for several sizes, and sizes that Inductor fixed
    Case(
        name="equal", function=lambda x, y: x.t() @ y, dynamic=({0: AUTO}, {0: AUTO}), options=EMPTY,
        args=(series(4, 3), series(4, 2)), bad=(((series(4, 3), series(5, 2)), LAYOUT),),
        others=((series(7, 3), series(7, 2)), (series(1, 3), series(1, 2)), (series(0, 3), series(0, 2))),
    ),
    Case(
        name="all_equal", function=lambda x, y, z: (x + 0 * y) @ z, args=(series(4), series(4), series(4, 4)),
        dynamic=({0: AUTO}, {0: AUTO}, {0: AUTO, 1: AUTO}), others=((series(6), series(6), series(6, 6)),), slow=True,
    ),
    Case(
        name="fixed", function=lambda x: x.view(2, 2) if x.shape[0] == 4 else x, dynamic=({0: AUTO},),
        args=(series(4),), bad=(((series(5),), LAYOUT),),
    ),
    Case(
        name="nested", function=nested, args=({"a": series(4, 2), "b": [series(4, 3), series(3)]},),
        dynamic=({"a": {0: AUTO}, "b": [{0: AUTO}, {0: AUTO}]},),
        others=(({"a": series(6, 2), "b": [series(6, 3), series(8)]},),),
        bad=((({"a": series(6, 2), "b": [series(5, 3), series(8)]},), LAYOUT),),
    ),
    # --- strides and offsets
    Case(
        name="steps", function=lambda x: x.t(), dynamic=({0: DYNAMIC},), args=(series(8, 6)[::2, ::3],),
        others=((series(10, 6)[::2, ::3],), (series(2, 6)[::2, ::3],)),
    ),
    Case(
        name="every_stride", function=lambda x: (x.t(), x.stride(0)), dynamic=({0: AUTO, 1: AUTO},),
        args=(series(5, 8)[:, ::2],), others=((series(7, 12)[:, ::2],), (series(3, 6)[:, ::2],)),
    ),
    Case(
        name="permuted", function=lambda x: x.select(0, 0).t() @ x.select(0, 1), dynamic=({0: AUTO, 1: AUTO, 2: AUTO},),
        args=(series(2, 5, 3).permute(0, 2, 1),), others=((series(3, 4, 6).permute(0, 2, 1),),),
    ),
    Case(
        name="expanded", function=lambda x: x.t(), dynamic=({0: AUTO},), args=(series(1, 4).expand(3, 4),),
        others=((series(1, 4).expand(6, 4),), (series(1, 4).expand(1, 4),)),
    ),
    Case(
        name="channels_last", function=lambda x: x * 2, dynamic=({0: AUTO, 2: AUTO, 3: AUTO},), slow=True,
        args=(series(2, 3, 4, 5).to(memory_format=torch.channels_last),),
        others=((series(3, 3, 6, 7).to(memory_format=torch.channels_last),),),
    ),
    Case(
        name="offset", function=strided_window, dynamic=({0: DYNAMIC},), args=(series(6, 4)[2:],),
        others=((series(9, 4)[2:],), (series(9, 4)[5:],)),
    ),
    Case(
        name="fixed_offset", function=lambda x: torch.as_strided(x, (2, 2), (4, 1), 4), args=(series(6, 4)[1:],),
        bad=(((series(7, 4)[2:],), "storage offset of input x"),),
    ),
    # --- numbers
    Case(
        name="int", function=lambda x, n: (x.expand(n, 4), n * 2), dynamic=(None, DYNAMIC), args=(series(4), 3),
        others=((series(4), 5), (series(4), 1), (series(4), 0)), bad=(((series(4), -2), "input n is out of range"),),
    ),
    Case(
        name="int_twice", function=same_number, dynamic=(None, DYNAMIC, DYNAMIC), args=(series(4), 3, 3),
        others=((series(4), 5, 5),), bad=(((series(4), 3, 4), "one number, twice"),),
    ),
    Case(
        name="int_that_is_a_size", function=number_of_rows, dynamic=({0: DYNAMIC}, DYNAMIC), args=(series(4, 2), 4),
        others=((series(6, 2), 6),), bad=(((series(4, 2), 5), "n counts the rows"),),
    ),
    Case(
        name="int_that_was_fixed", function=lambda x, n: x.t() if n == 3 else x, dynamic=(None, AUTO),
        args=(series(4, 2), 3), bad=(((series(4, 2), 4), "input n is out of range"),),
    ),
    Case(
        name="float", function=lambda x, s: (x.t(), s * 2), dynamic=(None, None), args=(series(4, 2), 2.5),
        bad=(((series(4, 2), 3.5), "WIR926"),),
    ),
    Case(
        name="bool", function=lambda x, b: x.t() if b else x, dynamic=(None, None), args=(series(4, 2), True),
        bad=(((series(4, 2), False), "WIR926"),),
    ),
    # --- results
    Case(
        name="sizes", function=sizes_of, dynamic=({0: DYNAMIC},), args=(series(4, 2),), options=EMPTY,
        others=((series(9, 2),), (series(1, 2),), (series(0, 2),)),
    ),
    Case(
        name="only_a_size", function=lambda x: x.shape[0] * x.shape[1], dynamic=({0: DYNAMIC, 1: DYNAMIC},),
        args=(series(4, 2),), others=((series(9, 1),),), bad=(((series(0, 2),), RANGE),),
    ),
    # --- what the trace relied on
    Case(
        name="promised", function=lambda x: x.t(), dynamic=({0: Dim("m", min=4, max=6)},), args=(series(5, 2),),
        others=((series(4, 2),), (series(6, 2),)), bad=(((series(3, 2),), RANGE), ((series(7, 2),), RANGE)),
    ),
    Case(
        name="guard", function=lambda x: x.view(-1, 4, 5), dynamic=({0: AUTO},), args=(series(12, 5),), options=EMPTY,
        others=((series(24, 5),), (series(4, 5),), (series(0, 5),)), bad=(((series(13, 5),), "is invalid for input of size"),),
    ),
    Case(
        name="branch", function=lambda x: x.t() if x.shape[0] > 5 else x, dynamic=({0: DYNAMIC},), args=(series(8, 2),),
        others=((series(6, 2),),), bad=(((series(4, 2),), RANGE),),
    ),
    Case(
        name="branch_on_one", function=lambda x: x.t() if x.shape[0] == 1 else x, dynamic=({0: DYNAMIC},),
        args=(series(4, 2),), others=((series(2, 2),),), bad=(((series(1, 2),), OUTSIDE),),
    ),
    Case(
        name="branch_against_a_promise", function=lambda x: x.t() if x.shape[0] == 1 else x, dynamic=({0: Dim("k")},),
        args=(series(4, 2),), others=((series(2, 2),),), bad=(((series(1, 2),), RANGE),),
    ),
    Case(
        name="check_of_two", function=checked, dynamic=({0: DYNAMIC}, {0: DYNAMIC}), args=(series(12), series(3)),
        others=((series(8), series(7)),), bad=(((series(5), series(7)), "x is the longer one"),),
    ),
    Case(
        name="check_of_what_is_replaced", function=twice_as_long, dynamic=({0: DYNAMIC}, {0: DYNAMIC}),
        args=(series(8), series(4)), others=((series(6), series(3)),),
        bad=(((series(9), series(4)), "two of x for each of y"),),
    ),
    Case(
        name="check_of_a_multiple", function=six_fold, dynamic=({0: DYNAMIC},), args=(series(12),),
        others=((series(24),), (series(6),)), bad=(((series(13),), "six rows at a time"),),
    ),
    Case(name="unused_input", function=lambda x, y: x.t(), args=(series(4, 2), series(3)),
         bad=(((series(4, 2), series(4)), LAYOUT),)),
    # --- sizes in kernels
    Case(
        name="slices", function=lambda x, y: torch.cat([x[2:], y]), dynamic=({0: DYNAMIC}, None), options=EMPTY,
        args=(series(5), series(3)), others=tuple((series(n), series(3)) for n in (2, 1, 0)),
    ),
    Case(
        name="reductions", function=lambda x: (x.cumsum(0), x.mean(), x.softmax(0)), dynamic=({0: DYNAMIC},), options=EMPTY,
        args=(series(5),), others=((series(1),), (series(0),)), slow=True,
    ),
    Case(
        name="mutation", function=lambda x: x.add_(x.shape[0]).mul(2), dynamic=({0: DYNAMIC},), options=EMPTY,
        args=(series(5),), others=((series(1),), (series(0),)), slow=True,
    ),
    Case(
        name="written_parts", function=written_parts, dynamic=({0: DYNAMIC},), args=(series(5, 6),),
        others=((series(1, 6),), (series(2, 6),)), needs=("2.12", "slices of a dimension without bounds are not lowered"),
    ),
    Case(
        name="pooling", function=lambda x: torch.nn.functional.avg_pool2d(x, 3, 2), dynamic=({2: DYNAMIC, 3: DYNAMIC},),
        args=(series(1, 2, 9, 9),), others=((series(1, 2, 12, 7),),), slow=True,
    ),
    Case(
        name="interpolation", function=lambda x: torch.nn.functional.interpolate(x, scale_factor=1.5), slow=True,
        dynamic=({2: DYNAMIC, 3: DYNAMIC},), args=(series(1, 2, 6, 6),), others=((series(1, 2, 9, 5),),),
    ),
    Case(
        name="padding", function=lambda x, y: (torch.cat([x, y]), torch.nn.functional.pad(x, (0, 0, 1, x.shape[0]))),
        dynamic=({0: DYNAMIC}, {0: DYNAMIC}), args=(series(3, 2), series(5, 2)), others=((series(4, 2), series(2, 2)),),
        slow=True,
    ),
]  # fmt: skip

# Where Dynamo gives its graphs numbers or fixed offsets instead, there is nothing symbolic to compile.
NOT_COMPILED = {"offset", "fixed_offset", "int_twice", "int_that_is_a_size"}


@pytest.mark.slow
@pytest.mark.parametrize("case", [c.param() for c in CASES])
def test_capture(case: Case) -> None:
    check_capture(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c.param() for c in CASES if c.name not in NOT_COMPILED])
def test_compile(case: Case) -> None:
    check_compile(case)


def test_sizes_that_training_finds_equal() -> None:
    compiled = torch.compile(attention, backend="wrapper_ir")
    for length in (5, 7):
        m, x = torch.ones(3, length, dtype=torch.long), series(3, length, 8).requires_grad_()
        for tensor in (m, x):
            torch._dynamo.mark_dynamic(tensor, 1)
        ours, eager = (torch.autograd.grad(f(m, x).sum(), x) for f in (compiled, attention))
        torch.testing.assert_close(ours, eager)


SAVED = {"guard", "check_of_two", "equal", "branch", "int_that_was_fixed"}


@pytest.mark.parametrize("case", [c.param() for c in CASES if c.name in SAVED])
def test_loaded_programs_check_the_same(case: Case) -> None:
    """A saved program has no shape environment, and no messages of the author."""

    class Model(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return case.function(*args)

    shapes = (case.dynamic,)
    exported = torch.export.export(Model(), case.args, dynamic_shapes=shapes, strict=False)
    buffer = io.BytesIO()
    torch.export.save(exported, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer)
    runs = runs_of(capture(loaded, ()))
    for run in runs.values():
        for args, _ in case.bad:
            with pytest.raises(ExecutionError):
                run(*args)
        torch.testing.assert_close(run(*case.args), case.function(*case.args))


def test_a_trace_that_read_the_base_of_a_view() -> None:
    """Torch guards on the width of the matrix that contains the input: the input's first stride."""

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.reshape(-1) + 1

    part = series(8, 6)[:, 1:]
    exported = torch.export.export(Model(), (part,), dynamic_shapes=({0: AUTO, 1: AUTO},), strict=False)
    for run in runs_of(capture(exported, ())).values():
        for x in (part, series(3, 9)[:, 2:]):
            torch.testing.assert_close(run(x), x.reshape(-1) + 1)
        with pytest.raises(ExecutionError, match=OUTSIDE):
            run(series(3, 9))


@pytest.mark.parametrize("saved", [False, True])
def test_guards_on_the_base_of_a_view(saved: bool) -> None:
    """A saved program does not know which symbol is the base's width: the guard is checked for every
    candidate."""

    class Model(torch.nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x * 2 + y.sum()

    def parts(rows: int, columns: int, count: int) -> tuple[Tensor, Tensor]:
        base = series(rows, columns)
        return base.t()[1:].t(), base.view(-1)[3 : 3 + count]

    shapes = ({0: AUTO}, {0: AUTO})
    exported = torch.export.export(Model(), parts(8, 4, 4), dynamic_shapes=shapes, strict=False)
    if saved:
        buffer = io.BytesIO()
        torch.export.save(exported, buffer)
        buffer.seek(0)
        exported = torch.export.load(buffer)
    if "_base" not in "".join(guard_texts(exported)):
        pytest.skip("this torch guards inputs themselves")
    for run in runs_of(capture(exported, ())).values():
        for args in (parts(8, 4, 4), parts(5, 4, 6)):
            torch.testing.assert_close(run(*args), Model()(*args))
        with pytest.raises(ExecutionError, match=OUTSIDE):
            run(series(8, 3), series(4))


class TestGoldens:
    """Text of programs, without provenance."""

    @staticmethod
    def affine() -> Any:
        case = next(c for c in CASES if c.name == "affine")
        return capture(case.function, case.args, dynamic_shapes=case.dynamic)

    @staticmethod
    def guard() -> Any:
        case = next(c for c in CASES if c.name == "guard")
        return capture(case.function, case.args, dynamic_shapes=case.dynamic)

    @staticmethod
    def replaced() -> Any:
        args = series(8), series(4)
        return capture(twice_as_long, args, dynamic_shapes=({0: DYNAMIC}, {0: DYNAMIC}))

    @staticmethod
    def numbers() -> Any:
        args = series(4, 2), 4, 4
        return capture(
            lambda x, n, m: (number_of_rows(x, n), m), args, dynamic_shapes=({0: DYNAMIC}, DYNAMIC, DYNAMIC)
        )

    @staticmethod
    def offset() -> Any:
        return capture(strided_window, (series(6, 4)[2:],), dynamic_shapes=({0: DYNAMIC},))

    @pytest.mark.parametrize("name", ["affine", "guard", "replaced", "numbers", "offset"])
    def test_golden(self, name: str, update_golden: bool) -> None:
        assert_golden(GOLDEN / f"symbols_{name}.wir.txt", getattr(self, name)().program, update_golden)
