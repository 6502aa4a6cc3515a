"""The ways in which torch traces a graph module again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

# Any in this file: inputs and results of any graph.
Traced = Callable[..., Any]


Way = Literal["real", "fake", "symbolic", "export", "export dynamic"]


WAYS: tuple[Way, ...] = get_args(Way)


def traced(module: fx.GraphModule, way: Way, inputs: list[Any]) -> Traced:
    """The module as another tracer sees it. Constants are tensors, also where inputs are fake."""
    if way == "real" or way == "fake" or way == "symbolic":
        found: Traced = make_fx(module, tracing_mode=way, _allow_non_fake_inputs=True)(*inputs)
        return found
    shapes = [_free_sizes(x) for x in inputs] if way == "export dynamic" else None
    exported = torch.export.export(module, tuple(inputs), dynamic_shapes=shapes, strict=False)
    return exported.module()


def _free_sizes(x: Any) -> Any:
    return dict.fromkeys(range(x.ndim), torch.export.Dim.AUTO) if isinstance(x, Tensor) else None
