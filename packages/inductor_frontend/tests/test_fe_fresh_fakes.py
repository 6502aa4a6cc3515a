"""Custom operators whose fake kernels return an argument, or a view of one, instead of a new tensor."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from packages.inductor_frontend.tests.observing import Case, assert_same, check_all_paths, observe, together
from torch import Tensor
from torch._higher_order_ops import while_loop
from torch.library import custom_op

import cpp_wrapper
import fx_converter
from inductor_frontend import CaptureError, capture
from inductor_frontend.export.fresh_fakes import fresh_fakes, fresh_returns
from wrapper_ir.plugins.protocols import Emitter

# Any in this file: models, their arguments and results.
OPS: Any = torch.ops.fe_fresh
_LIBRARY: Any = torch.library.Library("fe_fresh", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's


def _define(schema: str, kernel: Callable[..., Any], fake: Callable[..., Any], *, meta: bool = False) -> None:
    name = schema[: schema.index("(")]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, kernel, "CPU")
    if meta:
        _LIBRARY.impl(name, fake, "Meta")
    else:
        torch.library.register_fake(f"fe_fresh::{name}", fake, lib=_LIBRARY)


def _add_and_multiply(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 10


_define("plus(Tensor x, int n) -> Tensor", lambda x, n: x + n, lambda x, n: x)
_define("meta_plus(Tensor x, int n) -> Tensor", lambda x, n: x + n, lambda x, n: x, meta=True)
_define("two(Tensor x) -> (Tensor, Tensor)", lambda x: (x + 1, x + 2), lambda x: (x.new_empty(x.size()),) * 2)
_define("two_of_x(Tensor x) -> (Tensor, Tensor)", lambda x: (x + 1, x + 2), lambda x: (x, x))
_define("each(Tensor[] xs) -> Tensor[]", lambda xs: [x + 1 for x in xs], lambda xs: [*xs], meta=True)
_define("listed(Tensor x) -> Tensor[]", lambda x: [x + 1, x + 2], lambda x: [x] * 2)
_define("rest(Tensor x) -> Tensor", lambda x: x[1:] * 2, lambda x: x[1:], meta=True)
_define("turned(Tensor x) -> Tensor", lambda x: (x * 2).t(), lambda x: x.t())
_define("summed(Tensor x) -> Tensor", lambda x: x * 2, lambda x: x)
_define("step(Tensor(a!) x) -> Tensor", _add_and_multiply, lambda x: x)


@custom_op("fe_fresh::triple", mutates_args=())
def _triple(x: Tensor) -> Tensor:
    return x * 3


@_triple.register_fake
def _(x: Tensor) -> Tensor:
    return x


_triple.register_autograd(lambda _, gradient: OPS.triple(gradient))


def _x(*sizes: int) -> Tensor:
    return torch.arange(float(torch.Size(sizes or (3,)).numel())).reshape(sizes or (3,))


def returned(x: Tensor) -> Any:
    return OPS.plus(x, 3), OPS.meta_plus(x, 4), OPS.plus(OPS.plus(x, 1), 5)


def used_with_the_argument(x: Tensor) -> Any:
    return OPS.plus(x, 3) * 2 + x, OPS.meta_plus(x, 4) + x


def written(x: Tensor) -> Any:
    y = OPS.plus(x, 3)
    y.add_(1)
    x.mul_(2)
    return y.view(-1), y.t() if y.dim() > 1 else y


def several(x: Tensor) -> Any:
    a, b = OPS.two(x)
    a.add_(b)
    return a, b, OPS.two_of_x(x), x + 1


def lists(x: Tensor) -> Any:
    y = x * 2
    return OPS.each([x, y, y]), OPS.listed(x), y


def views(x: Tensor) -> Any:
    y = OPS.rest(x)
    y.add_(x[1:])
    return y, OPS.turned(x)


def layouts(x: Tensor) -> Any:
    return OPS.plus(x.t(), 1), OPS.plus(x[:, ::2].contiguous(), 1), OPS.summed(x[0].expand(2, 3))


def unchanged(x: Tensor) -> Any:
    y = OPS.plus(x, 1)
    return y.contiguous(), y.type_as(x), y.detach(), y.reshape(y.size())


def in_place(x: Tensor) -> Any:
    return OPS.step(x) + x


def chosen(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: OPS.plus(x, 1) * 2 + x, lambda x: OPS.plus(x, 2) * 3, (x,))


def looped(x: Tensor) -> Any:
    return while_loop(  # type: ignore[no-untyped-call]  # torch has no types for it
        lambda i, x: i < 3, lambda i, x: (i + 1, OPS.plus(x, 1) + x), (torch.tensor(0), x)
    )


def by_torch(x: Tensor) -> Any:
    return OPS.triple(x) + x, OPS.triple(OPS.triple(x))


CASES = {
    f.__name__: Case(f, (x,))
    for f, x in (
        (returned, _x()),
        (used_with_the_argument, _x()),
        (written, _x(2, 3)),
        (several, _x()),
        (lists, _x()),
        (views, _x(2, 3)),
        (layouts, _x(2, 3)),
        (unchanged, _x(2, 3)),
        (in_place, _x()),
        (by_torch, _x()),
    )
}


@pytest.mark.slow
def test_results_are_new_tensors() -> None:
    """Every engine and torch.compile; stock Inductor mixes up results and arguments in half of these."""
    case = together(CASES)
    artifact = check_all_paths(case)
    want = observe(case.function, case.args)
    emitters: tuple[Emitter[Any], ...] = (fx_converter.EMITTER, cpp_wrapper.EMITTER)
    for emitter in emitters:
        assert_same(observe(emitter.compile(artifact), case.args), want)


@pytest.mark.slow
def test_results_in_branches_and_loops() -> None:
    def both(x: Tensor) -> Any:
        return chosen(x), looped(x)

    def plain(x: Tensor) -> Any:
        i, y = 0, x
        while i < 3:
            i, y = i + 1, OPS.plus(y, 1) + y
        return OPS.plus(x, 1) * 2 + x, (torch.tensor(i), y)

    check_all_paths(Case(both, (_x(),)), want=plain)


def test_results_of_any_size() -> None:
    def function(x: Tensor) -> Any:
        return OPS.plus(x, 3) + x, OPS.turned(x)

    rows = torch.export.Dim("rows")
    artifact = capture(function, (_x(4, 2),), dynamic_shapes=({0: rows},))
    for emitter in (fx_converter.EMITTER, cpp_wrapper.EMITTER):
        call = emitter.compile(artifact)
        for x in (_x(4, 2), _x(7, 2)):
            torch.testing.assert_close(call(x), function(x))


@pytest.mark.slow
def test_results_in_training() -> None:
    """Also the gradient of a sum: its fake is an expanded number, unlike the operator's result."""

    def function(x: Tensor) -> Tensor:
        total: Tensor = (OPS.triple(x) + x + OPS.triple(x * x) * x).sum()
        return total

    x, y = _x().requires_grad_(), _x().requires_grad_()
    torch.testing.assert_close(torch.compile(function, backend="wrapper_ir")(x), function(y))
    for leaf in (x, y):
        function(leaf).backward()  # type: ignore[no-untyped-call]  # torch's
    torch.compile(function, backend="wrapper_ir")(x).backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert y.grad is not None
    torch.testing.assert_close(x.grad, 2 * y.grad)


class Model(torch.nn.Module):
    def forward(self, x: Tensor) -> Any:
        return OPS.plus(x, 3) + x


class Writing(torch.nn.Module):
    def forward(self, x: Tensor) -> Any:
        return OPS.step(x) + x


class Choosing(torch.nn.Module):
    def forward(self, x: Tensor) -> Any:
        return chosen(x)


@pytest.mark.parametrize("model", [Model, Writing, Choosing])
def test_programs_that_were_exported_with_such_fakes_are_refused(model: type[torch.nn.Module]) -> None:
    """The trace uses one tensor instead of the other: torch's own module computes something else."""
    program = torch.export.export(model(), (_x(),))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for refused in (program, program.run_decompositions(), torch.export.load(file)):
        with pytest.raises(
            CaptureError, match=r"(?s)FE110.*fe_fresh.(plus|step).default.*at node.*hint: .*empty_like"
        ):
            capture(refused, ())


def test_programs_that_were_exported_with_views_are_not_refused() -> None:
    class Views(torch.nn.Module):
        def forward(self, x: Tensor) -> Any:
            y = OPS.rest(x)
            y.add_(1)
            return y, OPS.turned(x), x * 1

    artifact = capture(torch.export.export(Views(), (_x(3, 2),)), ())
    torch.testing.assert_close(fx_converter.EMITTER.compile(artifact)(_x(3, 2)), Views()(_x(3, 2)))


def test_programs_exported_during_a_capture_have_the_right_tensors() -> None:
    with fresh_fakes():
        program = torch.export.export(Model(), (_x(),))
    torch.testing.assert_close(program.module()(_x()), Model()(_x()))


def test_which_operators_are_looked_at() -> None:
    """Operators of other libraries that are not composed of checked operators."""
    _LIBRARY.define("composed(Tensor x) -> Tensor")
    _LIBRARY.impl("composed", lambda x: x, "CompositeImplicitAutograd")
    aten = torch.ops.aten
    assert fresh_returns(OPS.plus.default) == {0}
    assert fresh_returns(OPS.two.default) == {0, 1}
    assert fresh_returns(OPS.step.default) == {0}
    others = (OPS.composed.default, aten.add.Tensor, aten.view.default, torch.cond, len)
    assert not any(map(fresh_returns, others))
    artifact = capture(lambda x: OPS.composed(x) + 1, (_x(),))
    assert not artifact.program.externs
