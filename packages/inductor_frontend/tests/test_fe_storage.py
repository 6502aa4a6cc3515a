"""Storages that a model resizes or replaces: freed and filled again, taken from another tensor,
reinterpreted."""

from __future__ import annotations

import pytest
import torch
from packages.inductor_frontend.tests.observing import (
    Case,
    assert_same,
    check_all_paths,
    main_text,
    observe,
    together,
)
from torch import Tensor

from inductor_frontend import capture
from wrapper_ir.errors import WirError
from wrapper_ir.plugins.registry import emitter


def _x(size: int = 4) -> Tensor:
    return torch.arange(float(size))


def _y() -> Tensor:
    return torch.arange(4.0) + 10


def given_up(x: Tensor) -> Tensor:
    y = x * 2
    torch.ops.inductor.resize_storage_bytes_(x, 0)
    return y


def grown(x: Tensor) -> Tensor:
    y = x * 2
    torch.ops.inductor.resize_storage_bytes_(x, 64)
    return y


def replaced(x: Tensor, y: Tensor) -> Tensor:
    x.set_(y)  # type: ignore[call-overload]  # the stubs know storages only
    return x * 2


def replaced_by_another_size(x: Tensor, y: Tensor) -> Tensor:
    x.set_(y)  # type: ignore[call-overload]  # the stubs know storages only
    return x + 1


def replaced_by_the_operator(x: Tensor, y: Tensor) -> Tensor:
    torch.ops.aten.set_.source_Tensor(x, y)
    return x + 1


def strided_anew(x: Tensor) -> Tensor:
    x.as_strided_((2, 2), (2, 1))
    return x * 2


def transposed(x: Tensor) -> Tensor:
    x.t_()
    return x * 2


def shown_from_the_start(x: Tensor) -> tuple[Tensor, Tensor]:
    """The input has an offset in its storage."""
    return x.as_strided([2, 2], [1, 1], 0), x.as_strided([2, 2], [1, 1], 0) + 1


def shown_to_the_end(x: Tensor) -> Tensor:
    return x.as_strided([8], [1], 0)


CASES = {
    f.__name__: Case(f, args)
    for f, args in (
        (given_up, (_x(),)),
        (grown, (_x(),)),
        (replaced, (_x(), _y())),
        (replaced_by_another_size, (_x(), _x(6))),
        (replaced_by_the_operator, (_x(), _y())),
        (shown_from_the_start, (_x(6)[3:],)),
        (shown_to_the_end, (_x(8)[3:5],)),
        (strided_anew, (_x(),)),
        (transposed, (_x(6).view(2, 3),)),
    )
}


def test_changes_of_storage() -> None:
    check_all_paths(together(CASES))


def test_a_storage_with_less_than_is_shown_is_refused() -> None:
    compiled = emitter("python").compile(capture(shown_to_the_end, (_x(8)[3:5],)))
    assert compiled(_x(9)[3:5]).tolist() == _x(8).tolist()
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        compiled(_x(7)[3:5])


GIVEN_UP = """func @main(%x: f32[4]) {
  assert_layout %x [4] [1] "input"
  %buf0 = alloc f32[4]
  launch @cpp_fused_mul_0(%x, %buf0) extents(16, 16)
  resize_storage %x, 0
  drop %x
  return %buf0
}
"""


def test_text_of_a_storage_given_up() -> None:
    assert main_text(capture(given_up, (_x(),)).program) == GIVEN_UP


def _gathered(parameter: Tensor, shard: Tensor) -> Tensor:
    """Repeats the steps of sharded training around each use of a parameter, which has no memory in
    between."""
    with torch.no_grad():
        parameter.untyped_storage().resize_(16)
        parameter.copy_(shard)
    result = (parameter * 2).sum()
    with torch.no_grad():
        parameter.untyped_storage().resize_(0)
    return result


def _gathered_by_operators(parameter: Tensor, shard: Tensor) -> Tensor:
    torch.ops.inductor.resize_storage_bytes_(parameter, 16)
    parameter.copy_(shard)
    result = (parameter * 2).sum()
    torch.ops.inductor.resize_storage_bytes_(parameter, 0)
    return result


def _empty() -> Tensor:
    parameter = torch.ones(4)
    parameter.untyped_storage().resize_(0)
    return parameter


def test_a_parameter_without_memory_gets_some_for_a_while() -> None:
    """Torch's own code crashes here."""
    compiled = torch.compile(_gathered, backend="wrapper_ir")
    for run in (_gathered, compiled):
        for parameter in (_empty(), _empty(), torch.ones(4)):
            assert run(parameter, _x()).item() == 12
            assert parameter.untyped_storage().nbytes() == 0


def test_gradients_of_a_parameter_that_has_memory_for_a_while() -> None:
    parameter = _empty().requires_grad_()
    loss = torch.compile(_gathered, backend="wrapper_ir")(parameter, _x())
    (gradient,) = torch.autograd.grad(loss, parameter)
    assert gradient.tolist() == [2, 2, 2, 2]


def test_a_storage_that_is_resized_after_a_write_is_refused() -> None:
    """Torch would resize the source of the write instead."""
    with pytest.raises(WirError, match=r"(?s)FE105.*resized at node resize_storage_bytes__1.*hint"):
        capture(_gathered_by_operators, (torch.ones(4), _x()))
    with pytest.raises(Exception, match=r"(?s)FE105.*resized at node"):
        torch.compile(_gathered, backend="wrapper_ir")(torch.ones(4), _x())


def test_data_attribute() -> None:
    def written(x: Tensor) -> Tensor:
        x.data.mul_(2)
        return x + 1

    def assigned(x: Tensor) -> Tensor:
        y = x * 2
        x.data = y
        return x + 1

    case = together({"written": Case(written, (_x(),)), "assigned": Case(assigned, (_x(),))})
    compiled = torch.compile(case.function, backend="wrapper_ir")
    assert_same(observe(compiled, case.args), observe(case.function, case.args))
    exported = emitter("python").compile(capture(written, (_x(),)))
    assert_same(observe(exported, (_x(),)), observe(written, (_x(),)))
    with pytest.raises(WirError, match=r"(?s)FE105.*data"):
        capture(assigned, (_x(),))


def test_a_resize_that_export_does_not_see_is_refused() -> None:
    def function(x: Tensor) -> Tensor:
        y = x + 1
        x.untyped_storage().resize_(0)
        return y

    with pytest.raises(WirError, match=r"(?s)FE105.*hint.*resize_storage_bytes_"):
        capture(function, (_x(),))
    x = _x()
    assert torch.compile(function, backend="wrapper_ir")(x).tolist() == [1, 2, 3, 4]
    assert x.untyped_storage().nbytes() == 0
