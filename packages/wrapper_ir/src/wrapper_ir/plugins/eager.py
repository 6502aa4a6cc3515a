"""What frontends may offer besides `protocols.Frontend`: running a model without compiling it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerValue:
    """What one node of a model's graph computed, in the library that the model is written in."""

    node: str
    """Its name, as `Provenance.nodes` has it."""
    value: Any  # a tensor of the library, or a number


class EagerRun(Protocol):
    """A model, ready to run node by node."""

    @property
    def constants(self) -> Mapping[str, Any]:
        """The model's tensors that a capture makes constants of, by the names of those."""

    def values(self) -> Iterator[EagerValue]:
        """Runs the model on its example arguments; each node right after it has run."""


@runtime_checkable
class EagerFrontend(Protocol):
    """What a `Frontend` offers besides where it can run a model without compiling it, node by node of the graph that ops come
    from. `wir compare --with eager` asks for it."""

    # Any: as in `Frontend.capture`
    def eager(
        self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> EagerRun:
        """The run of `model` called with these arguments; `options` as in `capture`."""
