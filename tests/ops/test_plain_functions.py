"""Plain functions that emitters call in place of operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fx_converter._compat import raw_call
from wrapper_ir.analysis.plain_functions import PLAIN_FUNCTIONS


def _args(name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    a, b, c = torch.randn(4, 5), torch.randn(5, 6), torch.randn(4, 6)
    batch = (torch.randn(2, 4, 6), torch.randn(2, 4, 5), torch.randn(2, 5, 6))
    image = (torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3), torch.randn(4))
    heads = (torch.randn(1, 2, 4, 8),) * 3
    base = name.partition("::")[2].partition(".")[0]
    table: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        # for absent devices: their results, without elements
        "_scaled_dot_product_efficient_attention": (
            (*(x.to("meta") for x in heads), None, False),
            {"scale": 0.5},
        ),
        "_scaled_dot_product_flash_attention_for_cpu": ((*heads, 0.0, True), {"scale": 0.5}),
        "addmm": ((c, a, b), {"beta": 2, "alpha": 3}),
        "baddbmm": (batch, {"beta": 2, "alpha": 3}),
        "bmm": (batch[1:], {}),
        "mm": ((a, b), {}),
        "convolution": ((*image, [1, 1], [1, 1], [1, 1], False, [0, 0], 1), {}),
        "cumsum": ((a, 1), {"dtype": torch.float64}),
        "native_layer_norm": ((a, [5], torch.randn(5), torch.randn(5), 1e-5), {}),
        "sort": ((a,), {"dim": 0, "descending": True}),
        "topk": ((a, 3, 0, False, True), {}),
    }
    return table[base]


@pytest.mark.parametrize("name", sorted(PLAIN_FUNCTIONS))
def test_they_are_the_same_operators(name: str) -> None:
    """Same results for the same arguments, and the dispatcher receives exactly the overload of the schema."""
    packet, _, overload_name = name.removeprefix("aten::").partition(".")
    overload = getattr(getattr(torch.ops.aten, packet), overload_name or "default")
    function: Callable[..., Any] = getattr(torch, PLAIN_FUNCTIONS[name])
    assert raw_call(overload) is function
    args, kwargs = _args(name)
    want = overload(*args, **kwargs) if not name.endswith(".out") else None
    if want is None:
        kwargs["out"] = torch.empty(0)
        want = overload(*args, **kwargs).clone()
        kwargs["out"] = torch.empty(0)
    with Seen() as seen:  # type: ignore[no-untyped-call]  # torch's own class is untyped
        got = function(*args, **kwargs)
    torch.testing.assert_close(got if isinstance(got, torch.Tensor) else tuple(got), want)
    assert seen.first == str(overload)


class Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]  # as above
    """Records the first operator that reaches the dispatcher."""

    first = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.first = self.first or str(func)
        return func(*args, **(kwargs or {}))
