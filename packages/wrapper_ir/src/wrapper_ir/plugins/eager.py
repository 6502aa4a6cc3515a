"""Optional capability of frontends: run a model without compiling it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerValue:
    """Result of one node of a model's graph, as an object of the model's library."""

    node: str
    """Name of the node, as in `Provenance.nodes`."""
    value: object
    """A tensor of the library, or a number."""


class EagerRun(Protocol):
    """A model, ready to run node by node."""

    @property
    def constants(self) -> Mapping[str, object]:
        """Tensors of the model that become constants of a capture, by the names of the constants."""

    def values(self) -> Iterator[EagerValue]:
        """Runs the model on its example arguments; yields each result when its node has run."""


@runtime_checkable
class EagerFrontend(Protocol):
    """Optional frontend capability: run a model node by node without compiling it
    (`wir compare --with eager`)."""

    # Any: as in `Frontend.capture`
    def eager(
        self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> EagerRun:
        """Returns a run of `model` with these arguments; `options` are as in `capture`."""
