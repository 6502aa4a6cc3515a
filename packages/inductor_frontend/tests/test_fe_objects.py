"""Objects that are not tensors: those that operators pass to each other are carried, others are refused by
name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from inductor_frontend import capture
from tests.common.symbol_runs import check_round_trips, compiled_programs
from tests.common.torch_versions import since
from wrapper_ir import ir
from wrapper_ir.errors import WirError

opaque_object = pytest.importorskip("torch._library.opaque_object", reason="torch 2.11 knows no such types")
fakes: Any = pytest.importorskip("torch._library.fake_class_registry")
bases = pytest.importorskip("torch._opaque_base")

# Any in this file: torch publishes no types for these.
X = torch.arange(4.0)


class Factor(bases.OpaqueBase):  # type: ignore[misc, name-defined]
    """An object that operators pass to each other."""

    def __init__(self, value: float) -> None:
        self.value = value


def _fake(x: Tensor) -> Any:
    return fakes.maybe_to_fake_obj(torch._guards.detect_fake_mode(x), Factor(0.0))


@pytest.fixture(scope="module")
def operators() -> Iterator[None]:
    opaque_object.register_opaque_type(Factor, typ="reference")
    with torch.library._scoped_library("wir_objects", "FRAGMENT"):
        if since("2.13"):
            make = torch.library.custom_op("wir_objects::make", mutates_args=())(_make)
            make.register_fake(_fake)
            pair = torch.library.custom_op("wir_objects::pair", mutates_args=())(_pair)
            pair.register_fake(lambda x: (torch.empty_like(x), _fake(x)))
        scale = torch.library.custom_op("wir_objects::scale", mutates_args=())(_scale)
        scale.register_fake(lambda x, factor: torch.empty_like(x))
        yield


def _make(x: Tensor) -> Factor:
    return Factor(float(x.sum()))


def _pair(x: Tensor) -> tuple[Tensor, Factor]:
    return x.clone(), _make(x)


def _scale(x: Tensor, factor: Factor) -> Tensor:
    return x * factor.value


def made(x: Tensor) -> Tensor:
    ops: Any = torch.ops.wir_objects
    result: Tensor = ops.scale(x + 1, ops.make(x)) * 2
    return result


def one_of_two(x: Tensor) -> Tensor:
    ops: Any = torch.ops.wir_objects
    y, factor = ops.pair(x)
    result: Tensor = ops.scale(y + 1, factor) * 2
    return result


def given(x: Tensor, factor: Factor) -> Tensor:
    result: Tensor = torch.ops.wir_objects.scale(x + 1, factor) * 2
    return result


RETURNING = pytest.mark.skipif(
    not since("2.13"),
    reason="torch before 2.13 infers no schemas with objects as results, and Dynamo traces no such operators",
)


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize(
    ("function", "args"),
    [
        pytest.param(made, (), marks=RETURNING),
        pytest.param(one_of_two, (), marks=RETURNING),
        (given, (Factor(3.0),)),
    ],
)
def test_carried(function: Callable[..., Tensor], args: tuple[Any, ...]) -> None:
    with compiled_programs() as programs:
        compiled = torch.compile(function, backend="wrapper_ir", fullgraph=True)
        torch.testing.assert_close(compiled(X, *args), function(X, *args))
    [program] = programs
    main = program.main
    values = [p.value for p in main.params] + [v for op in main.body for v in ir.results(op)]
    types = [value.type for value in values]
    assert any(isinstance(t, ir.OpaqueType) and t.kind is ir.OpaqueKind.TORCHBIND for t in types), types
    check_round_trips(program)


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weight = torch.quantize_per_tensor(torch.arange(32.0).view(8, 4), 0.1, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(weight, None)

    def forward(self, x: Tensor) -> Tensor:
        return applied(x, self.packed)


def applied(x: Tensor, packed: Any) -> Tensor:
    result: Tensor = torch.ops.quantized.linear_dynamic(x.view(1, 4) * 2, packed, True) + 1
    return result


class TestScriptObjects:
    """Script objects of classes that torch cannot trace: `torch.compile` leaves them to eager mode."""

    def test_attribute(self) -> None:
        model = Packed()
        torch.testing.assert_close(torch.compile(model, backend="wrapper_ir")(X), model(X))
        with pytest.raises(WirError, match=r"(?s)FE102.*attribute packed is a .*LinearPackedParams.*hint"):
            capture(model, (X,))

    def test_argument(self) -> None:
        packed = Packed().packed
        torch.testing.assert_close(
            torch.compile(applied, backend="wrapper_ir")(X, packed), applied(X, packed)
        )
        with pytest.raises(WirError, match=r"(?s)FE102.*argument \[1\] is a .*LinearPackedParams.*hint"):
            capture(applied, (X, packed))
