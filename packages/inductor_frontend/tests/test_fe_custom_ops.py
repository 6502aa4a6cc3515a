"""Custom operators: mutated arguments, results of every kind, out variants, layouts, order of effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from packages.inductor_frontend.tests.effect_ops import LOG, OPS
from packages.inductor_frontend.tests.observing import (
    Case,
    captured_paths,
    check_all_paths,
    check_forms,
    main_text,
    together,
)
from torch import Tensor

from inductor_frontend import ConversionError, capture
from inductor_frontend.operators.higher_order import print_def
from wrapper_ir import ir
from wrapper_ir.errors import WirError

# Any in this file: models and their arguments.


def _x(*sizes: int) -> Tensor:
    return torch.randn(*(sizes or (4,)), generator=torch.Generator().manual_seed(sum(sizes)))


def _cases(*pairs: tuple[Callable[..., Any], tuple[Any, ...]]) -> Case:
    return together({f.__name__: Case(f, args) for f, args in pairs})


# --- writing arguments


def an_input(x: Tensor, y: Tensor) -> None:
    OPS.add_into(x, y)


def something_computed(x: Tensor, y: Tensor) -> Tensor:
    z = x * 2
    OPS.add_into(z, y)
    return z


def views_of_an_input(x: Tensor, y: Tensor) -> None:
    OPS.add_into(x[0], y)
    OPS.add_into(x[1], x[0])
    OPS.scale_all([x[2], x[3, 1:]], 2.0)


def several_views_of_something_computed(x: Tensor) -> Tensor:
    z = x * 1
    OPS.scale_all([z[0], z[2], z[3, 1:]], 2.0)
    return z


def a_list(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    a, b = x + 1, y + 1
    OPS.scale_all([a, b], 3.0)
    return a, b


def an_optional_argument(x: Tensor, y: Tensor, z: Tensor) -> None:
    OPS.shift(x, y, 5)
    OPS.shift(z, None)


def with_a_result(x: Tensor, y: Tensor) -> Any:
    return OPS.step(x, y)


def two_views_with_two_results(x: Tensor) -> Any:
    z = x * 2
    a, b = OPS.step_both(z[0], z[1])
    return a, b, z


def a_copy_of_what_it_writes(x: Tensor) -> None:
    OPS.add_into(x, x.clone())


def test_arguments_are_written() -> None:
    check_all_paths(
        _cases(
            (an_input, (_x(), _x())),
            (something_computed, (_x(), _x())),
            (views_of_an_input, (_x(4, 4), _x())),
            (several_views_of_something_computed, (_x(4, 4),)),
            (a_list, (_x(), _x(3))),
            (an_optional_argument, (_x(), _x(), _x())),
            (with_a_result, (_x(), _x())),
            (two_views_with_two_results, (_x(4, 4),)),
            (a_copy_of_what_it_writes, (_x(),)),
        )
    )


WRITTEN = """func @main(%x: f32[4, 4]) {
  define x_offset = offset(%x)
  assert x_offset == 0 "the storage offset of input x is not what the model was captured for"
  assert_layout %x [4, 4] [4, 1] "input"
  %x.v = view %x + 32 : f32[4]
  drop %x
  call fe_ops::scale_all([%x.v], 2.0)
  drop %x.v
  return
}
"""


def test_a_view_of_an_input_is_written_in_place() -> None:
    """The operator is called as in the model, without copies."""

    def function(x: Tensor) -> None:
        OPS.scale_all([x[2]], 2.0)

    assert main_text(capture(function, (_x(4, 4),)).program) == WRITTEN


# --- results


def of_a_list(x: Tensor) -> Any:
    first, *rest = OPS.multiples(x, 3)
    return first, rest


def of_a_number(x: Tensor) -> Tensor:
    return x.new_zeros(OPS.twice_the_length(x))


def of_a_number_among_tensors(x: Tensor) -> Any:
    whole, size, short = OPS.shortened(x)
    return whole, short, x.new_ones(size)


def of_constants(x: Tensor) -> Any:
    tensor, number = OPS.constants(x)
    return tensor, number, OPS.factor(x), 1 if OPS.is_small(x) else 2


def of_nested_lists(x: Tensor, y: Tensor) -> Any:
    (a, b), c = OPS.nested([x, y])
    return a, b, c


def test_results() -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        check_all_paths(
            _cases(
                (of_a_list, (_x(),)),
                (of_a_number, (_x(),)),
                (of_a_number_among_tensors, (_x(),)),
                (of_constants, (_x(),)),
                (of_nested_lists, (_x(), _x(3))),
            )
        )


NUMBER = """func @main(%x: f32[4]) {
  assert_layout %x [4] [1] "input"
  %buf0 = call fe_ops::shortened(%x) : results
  drop %x
  %buf0_1 = unpack %buf0[1] : int
  define u0 = item(%buf0_1)
  %buf1 = unpack %buf0[0] : f32[4]
  %buf2 = unpack %buf0[2] : f32[u0]
  drop %buf0
  assert_layout %buf1 [4] [1] "torch.ops.fe_ops.shortened.default"
  assert_layout %buf2 [u0] [1] "torch.ops.fe_ops.shortened.default"
  assert u0 >= 0
  return %buf1, %buf2
}
"""


def test_a_number_among_results_is_a_symbol() -> None:
    def function(x: Tensor) -> Any:
        whole, _, short = OPS.shortened(x)
        return whole, short

    assert main_text(capture(function, (_x(),)).program) == NUMBER


# --- arguments


def every_kind(x: Tensor, y: Tensor) -> Any:
    text, cpu = "quotes \"' and\nlines é", torch.device("cpu")
    return OPS.every_argument(x, 2, 1.5, True, text, torch.float64, cpu, [1, 2], [0.5], None, None, [x, y])


def by_default(x: Tensor) -> Any:
    return OPS.defaults(x), OPS.defaults(x, 3, b=1.0, c="zz")


def optional_tensors(x: Tensor, y: Tensor) -> Any:
    return OPS.sum_of(x, [None, y, x])


def in_the_order_of_an_out_variant(x: Tensor, y: Tensor) -> Any:
    return OPS.mixed(x, 3, y), OPS.listed([x, y], None, 2.0), OPS.listed([x], y, 3.0)


def of_several_outs(x: Tensor) -> Any:
    low, high = OPS.halves(x)
    _, unused = OPS.halves(x, 7)
    return low, high, unused


def test_arguments() -> None:
    check_all_paths(
        _cases(
            (every_kind, (_x(), _x(2))),
            (by_default, (_x(),)),
            (optional_tensors, (_x(), _x())),
            (in_the_order_of_an_out_variant, (_x(), _x())),
            (of_several_outs, (_x(),)),
        )
    )


OUTS = """func @main(%x: f32[4]) {
  assert_layout %x [4] [1] "input"
  %buf1 = alloc f32[2]
  %buf2 = alloc f32[2]
  call fe_ops::halves.out(%x, n=2, low=%buf1, high=%buf2)
  drop %x
  free %buf2.s
  assert_layout %buf1 [2] [1] "torch.ops.fe_ops.halves.default"
  return %buf1
}
"""


@pytest.mark.skipif("out" not in torch.Tag.__members__, reason="torch 2.11 has no tag for out variants")
def test_an_unused_out_has_memory_all_the_same() -> None:
    artifact = capture(lambda x: OPS.halves(x)[0], (_x(),))
    check_forms(artifact)
    assert main_text(artifact.program).replace("%buf3", "%buf2") == OUTS


def test_arguments_that_alias_results_are_refused_by_torch() -> None:
    with torch.library._scoped_library("fe_aliasing", "FRAGMENT") as library:
        library.define("doubled_(Tensor(a!) x) -> Tensor(a!)")
        library.impl("doubled_", lambda x: x.mul_(2), "CPU")
        library.impl("doubled_", lambda x: x, "Meta")

        def function(x: Tensor) -> Any:
            return torch.ops.fe_aliasing.doubled_(x) + 1

        with pytest.raises(WirError, match=r"(?s)FE101.*fe_aliasing::doubled_.*alias annotation"):
            capture(function, (_x(),))


# --- layouts


def test_layouts_that_operators_ask_for() -> None:
    """Each returns the strides of its argument, which is computed, transposed and sliced."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        part = (x * 2).t()[1:, :2]
        exact, ordered = OPS.needs_exact_strides(part), OPS.needs_fixed_stride_order(part)
        return exact, ordered, OPS.needs_contiguous_strides(part), OPS.flexible_layout(x)

    x = _x(4, 4)
    runs = captured_paths(capture(function, (x,)))
    runs["backend"] = torch.compile(function, backend="wrapper_ir")
    for name, run in runs.items():
        exact, ordered, contiguous, _ = (tuple(strides.tolist()) for strides in run(x))
        assert exact == (1, 4), name
        assert ordered[0] < ordered[1], name
        assert contiguous == (2, 1), name


# --- effects


def test_effects_happen_in_order() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        OPS.record(x, "first")
        z = OPS.recorded(y, "second")
        a, b = OPS.recorded_twice(x)
        OPS.record(z, "third")
        return z, a, b

    x, y = _x(), _x(3)
    LOG.clear()
    want, log = function(x, y), LOG[:]
    artifact = capture(function, (x, y))
    check_forms(artifact)
    assert all(ir.ExternTag.EFFECTFUL in e.tags for e in artifact.program.externs)
    runs = captured_paths(artifact)
    runs["backend"] = torch.compile(function, backend="wrapper_ir")
    for name, run in runs.items():
        for _ in range(2):
            LOG.clear()
            torch.testing.assert_close(run(x, y), want, msg=name)
            assert log == LOG, name


EFFECTS = """func @main(%x: f32[4]) {
  assert_layout %x [4] [1] "input"
  call fe_ops::record(%x, "first")
  call fe_ops::record(%x, "second")
  drop %x
  return
}
"""


def test_effects_without_results_are_all_there_is() -> None:
    def function(x: Tensor) -> None:
        OPS.record(x, "first")
        OPS.record(x, "second")

    artifact = capture(function, (_x(),))
    assert main_text(artifact.program) == EFFECTS
    externs = [e for e in artifact.program.externs if e.name == "fe_ops::record"]
    assert [e.tags for e in externs] == [(ir.ExternTag.EFFECTFUL, ir.ExternTag.PYTHON_ONLY)]


def test_effects_in_training_happen_in_order() -> None:
    def function(x: Tensor) -> Tensor:
        OPS.record(x, "before")
        y = (x * x).sum()
        OPS.record(y, "after")
        return y

    compiled = torch.compile(function, backend="wrapper_ir")
    for _ in range(2):
        LOG.clear()
        x = torch.arange(3.0, requires_grad=True)
        compiled(x).backward()  # type: ignore[no-untyped-call]  # torch's
        assert LOG == [("before", 3.0), ("after", 5.0)]
        assert x.grad is not None
        assert x.grad.tolist() == [0, 2, 4]


def test_printing_operator(capfd: pytest.CaptureFixture[str]) -> None:
    def function(x: Tensor) -> Tensor:
        torch.ops.aten._print("one")
        y = torch.mm(x, x)
        torch.ops.aten._print("two")
        return y

    x = _x(2, 2)
    runs = captured_paths(capture(function, (x,)))
    runs["backend"] = torch.compile(function, backend="wrapper_ir")
    capfd.readouterr()
    for name, run in runs.items():
        run(x)
        assert capfd.readouterr().out.split() == ["one", "two"], name


PRINTED = """func @main(%x: f32[2, 2]) {
  assert_layout %x [2, 2] [2, 1] "input"
  call higher_order::print.Tensor_n_SymInt_t_str("{}: {n} {t}", %x, n=3, t="yes")
  %buf1 = alloc f32[2, 2]
  call aten::mm.out(%x, %x, out=%buf1)
  drop %x
  call fe_ops::record(%buf1, "between")
  call higher_order::print.text("done")
  return %buf1
}
"""


def test_formatted_prints_keep_their_place(capfd: pytest.CaptureFixture[str]) -> None:
    def function(x: Tensor) -> Tensor:
        torch._higher_order_ops.print("{}: {n} {t}", x, n=3, t="yes")
        y = torch.mm(x, x)
        OPS.record(y, "between")
        torch._higher_order_ops.print("done")
        return y

    x = torch.ones(2, 2)
    artifact = capture(function, (x,))
    check_forms(artifact)
    assert main_text(artifact.program) == PRINTED
    runs = captured_paths(artifact)
    runs["backend"] = torch.compile(function, backend="wrapper_ir")
    for name, run in runs.items():
        LOG.clear()
        capfd.readouterr()
        run(x)
        assert capfd.readouterr().out == f"{x}: 3 yes\ndone\n", name
        assert LOG == [("between", 8.0)], name


def test_what_cannot_be_printed_is_refused() -> None:
    with pytest.raises(ConversionError, match=r"(?s)FE302.*cannot be printed.*hint"):
        print_def(("{}", None), {})
