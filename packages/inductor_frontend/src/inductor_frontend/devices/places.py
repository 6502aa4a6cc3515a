"""Presents a model and its arguments as fake tensors on another device; the real tensors are unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

T = TypeVar("T")


class _Moved:
    """Maps tensors to fake counterparts on `device`, one for each; views of one storage stay views of one
    storage."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._fakes: dict[int, torch.Tensor] = {}
        self._real: dict[int, torch.Tensor] = {}

    def __call__(self, value: Any) -> object:  # Any: leaves of the user's arguments
        if not isinstance(value, torch.Tensor) or value.device.type not in ("cpu", self.device.type):
            return value
        fake = self._fakes.get(id(value))
        if fake is None:
            fake = self._fake(value)
            self._fakes[id(value)] = fake
            self._real[id(fake)] = value
        return fake

    def real(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the tensor that a fake one replaces; any other tensor is returned unchanged."""
        return self._real.get(id(tensor), tensor)

    def _fake(self, value: torch.Tensor) -> torch.Tensor:
        fake = self.mode.from_tensor(value.detach(), static_shapes=True)
        assert isinstance(fake, FakeTensor)
        fake.fake_device = self.device
        # Torch decomposes matmuls differently if gradients are required.
        if isinstance(value, torch.nn.Parameter):
            return torch.nn.Parameter(fake, requires_grad=value.requires_grad)
        return fake.requires_grad_(value.requires_grad)


@contextmanager
def on_device(
    module: torch.nn.Module, arguments: T, device: torch.device | None
) -> Iterator[tuple[T, dict[str, torch.Tensor]]]:
    """Replaces parameters and buffers of `module` by fake tensors on `device` while the context is active.

    Yields the arguments with fake tensors in the same way, and the module's real tensors by name. The module
    is restored on exit, also after an error. If `device` is None, nothing is replaced.
    """
    if device is None:
        yield arguments, {}
        return
    moved = _Moved(device)
    originals: list[tuple[dict[str, object], str, Any]] = []
    real: dict[str, torch.Tensor] = {}
    try:
        for prefix, part in module.named_modules(remove_duplicate=False):
            for table in (part._parameters, part._buffers):
                for name, tensor in list(table.items()):
                    if isinstance(tensor, torch.Tensor) and not isinstance(tensor, FakeTensor):
                        originals.append((table, name, tensor))
                        table[name] = moved(tensor)
                    if isinstance(tensor, torch.Tensor):
                        real[f"{prefix}.{name}" if prefix else name] = moved.real(tensor)
            if isinstance(part, torch.nn.RNNBase):  # also refers to its parameters from a list
                originals.append((vars(part), "_flat_weights", part._flat_weights))
                part._flat_weights = [moved(w) for w in part._flat_weights]
        yield pytree.tree_map(moved, arguments), real
    finally:
        for table, name, tensor in originals:
            table[name] = tensor
