"""Preserves a launch's arguments while a kernel runs on them repeatedly."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeGuard

from wrapper_ir import ir

if TYPE_CHECKING:
    from torch import Tensor


class Preserved:
    """A context in which a kernel may run repeatedly on the same arguments.

    `ready` prepares the next run: it restores tensors that a run reads and writes, or that the kernel
    declares as restored, and zeroes those that it declares as reset. Only these are copied: whole storages,
    each once, on their device if all copies fit into `budget` bytes, otherwise on the host. Leaving the
    context restores them, also after a failure. Tensors that a kernel only writes keep the last run's values:
    a real launch follows.
    """

    def __init__(
        self,
        params: Sequence[ir.KernelParam],
        args: Sequence[object],
        budget: int,
        restore: Collection[str] = (),
        reset: Collection[str] = (),
    ) -> None:
        tensors = {p.name: (p, a) for p, a in zip(params, args) if _is_tensor(a)}
        read = {_key(a) for p, a in tensors.values() if p.access.reads}
        self._copies: list[tuple[Tensor, Tensor]] = []
        self._reset = [tensors[name][1] for name in reset if name in tensors]
        tensors_to_copy: dict[int, Tensor] = {}
        for name, (param, tensor) in tensors.items():
            if name in restore or (param.access.writes and _key(tensor) in read):
                tensors_to_copy.setdefault(_key(tensor), tensor)
        for tensor in tensors_to_copy.values():
            whole = _bytes(tensor)
            near = whole.numel() <= budget
            budget -= whole.numel() if near else 0
            self._copies.append((whole, _copy(whole, near)))

    @property
    def nbytes(self) -> int:
        """Total bytes of the copies."""
        return sum(copy.numel() for _, copy in self._copies)

    def ready(self) -> None:
        """Prepares the arguments for the next run."""
        self._restore()
        for tensor in self._reset:
            tensor.zero_()

    def _restore(self) -> None:
        for whole, copy in self._copies:
            whole.copy_(copy)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        self._restore()


def _is_tensor(argument: object) -> TypeGuard[Tensor]:
    return hasattr(argument, "untyped_storage")


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _bytes(tensor: Tensor) -> Tensor:
    """The whole storage of a tensor as bytes."""
    import torch

    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),), (1,))


def _copy(whole: Tensor, near: bool) -> Tensor:
    """A copy on the same device, or on the host if device memory is full."""
    import torch

    if near:
        try:
            return whole.clone()
        except torch.OutOfMemoryError:
            pass
    return whole.to("cpu", copy=True)
