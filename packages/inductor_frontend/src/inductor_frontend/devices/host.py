"""Numbers that torch computes while it looks at a graph, on this machine instead of a GPU that is not here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

# Any: arguments and results of any operator.


class ComputeOnHost(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's base class
    """Operators that would make real tensors on a GPU make them on the CPU. Fake tensors stay where they are."""

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Calls `func`, with the CPU for a GPU."""
        named = dict(kwargs or {})
        if not any(isinstance(x, FakeTensor) for x in pytree.tree_leaves((args, named))):
            args, named = pytree.tree_map_only(torch.device, _host, (args, named))
        return func(*args, **named)


def folding_on_host(run: Callable[..., Any]) -> Callable[..., Any]:
    """The method by which torch computes what is constant in a graph; it switches modes off that were on before."""

    def run_node(folder: Any, node: Any) -> Any:
        with ComputeOnHost():  # type: ignore[no-untyped-call]  # as above
            return run(folder, node)

    return run_node


def _host(device: torch.device) -> torch.device:
    return torch.device("cpu") if device.type == "cuda" else device
