"""Objects of this process that belong to process groups, by the groups' names; dropped when a group ends."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from wrapper_ir_torch._compat import find_group

if TYPE_CHECKING:  # not in all builds of torch
    from torch._C._distributed_c10d import ProcessGroup

K = TypeVar("K")
T = TypeVar("T")


@dataclass(slots=True)
class _Owned(Generic[K, T]):
    """Objects of one group, with a weak reference to it."""

    group: weakref.ref[ProcessGroup]
    objects: dict[K, T] = field(default_factory=dict)


class GroupObjects(Generic[K, T]):
    """Objects by the name of a group, and a key. A destroyed group has none, even if its Python object lives.
    A new group of the same name starts empty."""

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        """`on_end` is called after objects of a group were dropped."""
        self._owned: dict[str, _Owned[K, T]] = {}
        self._on_end = on_end

    def of(self, name: str) -> dict[K, T]:
        """Returns the mutable objects of the group with this name. Raises RuntimeError if no such group
        exists."""
        group, owned = find_group(name), self._owned.get(name)
        if owned is None or owned.group() is not group:
            if owned is not None:
                owned.objects.clear()
            owned = self._owned[name] = _Owned(weakref.ref(group))
            weakref.finalize(group, self._forget, name, owned)
            self._on_end()
        return owned.objects

    def release(self, name: str) -> dict[K, T]:
        """Drops the objects of a group, and returns them if the group is alive."""
        try:
            objects = dict(self.of(name))
        except RuntimeError:  # the group was destroyed
            objects = {}
        owned = self._owned.pop(name, None)
        if owned is not None:
            owned.objects.clear()  # the group's finalizer references `owned`
        self._on_end()
        return objects

    def _forget(self, name: str, owned: _Owned[K, T]) -> None:
        """Drops the objects of a group that has ended."""
        if self._owned.get(name) is owned:
            del self._owned[name]
            self._on_end()
