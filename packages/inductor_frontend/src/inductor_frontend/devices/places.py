"""A model and its arguments as if they were on another device: fake tensors there, the real ones untouched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

T = TypeVar("T")


class _Moved:
    """Fake counterparts on `device`, one for each tensor; views of one memory stay views of one memory."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self._fakes: dict[int, torch.Tensor] = {}
        self._real: dict[int, torch.Tensor] = {}

    def __call__(self, value: Any) -> Any:  # Any: leaves of the user's arguments
        if not isinstance(value, torch.Tensor) or value.device.type not in ("cpu", self.device.type):
            return value
        found = self._fakes.get(id(value))
        if found is None:
            found = self._fake(value)
            self._fakes[id(value)] = found
            self._real[id(found)] = value
        return found

    def real(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor that a fake one stands for, which may be the given one itself."""
        return self._real.get(id(tensor), tensor)

    def _fake(self, value: torch.Tensor) -> torch.Tensor:
        fake = self.mode.from_tensor(value.detach(), static_shapes=True)
        assert isinstance(fake, FakeTensor)
        fake.fake_device = self.device
        # Torch decomposes matmuls by whether gradients are wanted.
        if isinstance(value, torch.nn.Parameter):
            return torch.nn.Parameter(fake, requires_grad=value.requires_grad)
        return fake.requires_grad_(value.requires_grad)


@contextmanager
def on_device(
    module: torch.nn.Module, arguments: T, device: torch.device | None
) -> Iterator[tuple[T, dict[str, torch.Tensor]]]:
    """While the context is active, parameters and buffers of `module` are fake tensors on `device`, and so are the tensors of the
    arguments that it gives; besides, the module's own tensors by name. The module has them back afterwards, also after
    errors. Without a device, nothing is moved."""
    if device is None:
        yield arguments, {}
        return
    moved = _Moved(device)
    kept: list[tuple[dict[str, Any], str, Any]] = []
    real: dict[str, torch.Tensor] = {}
    try:
        for prefix, part in module.named_modules(remove_duplicate=False):
            for table in (part._parameters, part._buffers):
                for name, tensor in list(table.items()):
                    if isinstance(tensor, torch.Tensor) and not isinstance(tensor, FakeTensor):
                        kept.append((table, name, tensor))
                        table[name] = moved(tensor)
                    if isinstance(tensor, torch.Tensor):
                        real[f"{prefix}.{name}" if prefix else name] = moved.real(tensor)
            if isinstance(part, torch.nn.RNNBase):  # has its parameters in a list besides
                kept.append((vars(part), "_flat_weights", part._flat_weights))
                part._flat_weights = [moved(w) for w in part._flat_weights]
        yield pytree.tree_map(moved, arguments), real
    finally:
        for table, name, tensor in kept:
            table[name] = tensor
