"""Runs constant folding on the CPU if the program is captured for a GPU that this machine does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


class ComputeOnHost(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's base class
    """Dispatch mode that creates real tensors on the CPU in place of a GPU. Fake tensors keep their
    device."""

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Calls `func` with the CPU in place of a GPU."""
        keywords = dict(kwargs or {})
        if not any(isinstance(x, FakeTensor) for x in pytree.tree_leaves((args, keywords))):
            args, keywords = pytree.tree_map_only(torch.device, _host, (args, keywords))
        return func(*args, **keywords)


def folding_on_host(run: Callable[..., object]) -> Callable[..., object]:
    """Wraps the method that folds constants of a graph. That method disables modes which were active
    before."""

    def run_node(folder: object, node: object) -> object:
        with ComputeOnHost():  # type: ignore[no-untyped-call]  # torch's base class
            return run(folder, node)

    return run_node


def _host(device: torch.device) -> torch.device:
    return torch.device("cpu") if device.type == "cuda" else device
