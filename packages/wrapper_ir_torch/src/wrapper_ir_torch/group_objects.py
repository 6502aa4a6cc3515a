"""What this process has for its process groups, by name: it ends with the group."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from wrapper_ir_torch._compat import find_group

K = TypeVar("K")
T = TypeVar("T")


@dataclass(slots=True)
class _Owned(Generic[K, T]):
    """Objects of one group, which they do not keep alive."""

    group: weakref.ref[Any]  # Any: torch's own class, not in all builds
    objects: dict[K, T] = field(default_factory=dict)


class GroupObjects(Generic[K, T]):
    """Objects by the name of a group, and a key. A group that was destroyed has none, also while something keeps its object, and another
    one that has its name has its own."""

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        """`on_end` is called when a name has let go of its objects."""
        self._owned: dict[str, _Owned[K, T]] = {}
        self._on_end = on_end

    def of(self, name: str) -> dict[K, T]:
        """Those of the group that has this name, to read and to add to. Raises RuntimeError where no group has it."""
        group, owned = find_group(name), self._owned.get(name)
        if owned is None or owned.group() is not group:
            if owned is not None:
                owned.objects.clear()
            owned = self._owned[name] = _Owned(weakref.ref(group))
            weakref.finalize(group, self._forget, name, owned)
            self._on_end()
        return owned.objects

    def release(self, name: str) -> dict[K, T]:
        """Lets go of them, and returns those of a group that lives."""
        try:
            found = dict(self.of(name))
        except RuntimeError:  # no group has this name any more
            found = {}
        owned = self._owned.pop(name, None)
        if owned is not None:
            owned.objects.clear()  # what waits for the group's end holds `owned`
        self._on_end()
        return found

    def _forget(self, name: str, owned: _Owned[K, T]) -> None:
        """When a group has ended."""
        if self._owned.get(name) is owned:
            del self._owned[name]
            self._on_end()
