"""Tables of the converter against what they must cover."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fx_converter import targets
from fx_converter._compat import FAST_CALLS
from fx_converter.graph.numbers import COMPARISONS, CONVERSIONS, FUNCTIONS
from fx_converter.graph.table import CONVERTERS
from fx_converter.native import DTYPES
from fx_converter.saving.functions import FUNCTIONS_BY_NAME, NAMES_OF_FUNCTIONS
from wrapper_ir.expr import CmpOp, ConvertOp, MathOp
from wrapper_ir.ops import OP_CLASSES
from wrapper_ir.types import DType


def test_every_op_has_a_converter() -> None:
    assert set(CONVERTERS) == set(OP_CLASSES)


def test_every_function_of_numbers_is_there() -> None:
    assert set(COMPARISONS) == set(CmpOp)
    assert set(CONVERSIONS) == set(ConvertOp)
    assert set(FUNCTIONS) == set(MathOp)
    assert set(DTYPES) == set(DType)


def test_files_can_name_what_graphs_call() -> None:
    for table in (COMPARISONS, CONVERSIONS, FUNCTIONS):
        assert set(table.values()) <= set(NAMES_OF_FUNCTIONS)
    assert {getattr(targets, name) for name in targets.__all__} <= set(NAMES_OF_FUNCTIONS)
    assert all(FUNCTIONS_BY_NAME[name] is f for f, name in NAMES_OF_FUNCTIONS.items())


@pytest.mark.parametrize("overload", FAST_CALLS, ids=str)
def test_fast_calls_are_the_same_operator(overload: Any) -> None:
    """The plain function, called with the operator's arguments, reaches that very overload."""
    a, b, c = torch.randn(4, 5), torch.randn(5, 6), torch.randn(4, 6)
    batch = (torch.randn(2, 4, 5), torch.randn(2, 5, 6))
    args: dict[str, tuple[Any, ...]] = {
        "addmm": (c, a, b),
        "mm": (a, b),
        "bmm": batch,
        "baddbmm": (torch.randn(2, 4, 6), *batch),
        "convolution": (
            torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1,
        ),
    }  # fmt: skip
    given = args[overload.overloadpacket.__name__]
    want = getattr(torch.ops.aten, overload.overloadpacket.__name__).default(*given)
    kwargs = {"out": torch.empty_like(want)} if overload._overloadname == "out" else {}
    seen: list[Any] = []

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it so
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Watch():  # type: ignore[no-untyped-call]  # torch leaves it so
        got = FAST_CALLS[overload](*given, **kwargs)
    assert seen == [overload]
    torch.testing.assert_close(got, want)


def test_files_cannot_name_what_loads_or_runs_text() -> None:
    assert not {torch.load, exec, eval, open, __import__} & set(NAMES_OF_FUNCTIONS)
