"""Versions of the stored forms, and upgrades of older documents.

Each form has a separate version. Before the first release, a change raises the number, and older files are
refused. After it, a change also adds an `Upgrader`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wrapper_ir.support.json_value import Json


@dataclass(frozen=True, slots=True)
class Upgrader:
    """One upgrade step: `apply` converts a document of version `source` to version `target`.

    It changes only the differences; all other fields, including optional ones, are preserved.
    """

    source: str
    target: str
    apply: Callable[[dict[str, Json]], dict[str, Json]]


@dataclass(frozen=True, slots=True)
class Form:
    """A stored form: its name in messages (`what`), the current version, and upgrades from older versions."""

    what: str
    version: str
    upgraders: tuple[Upgrader, ...] = ()

    def steps(self, version: str) -> tuple[Upgrader, ...] | None:
        """Returns the upgrades from `version` to the current one, in order; None if there are none."""
        steps: list[Upgrader] = []
        while version != self.version:
            step = next((u for u in self.upgraders if u.source == version), None)
            if step is None or step in steps:
                return None
            steps.append(step)
            version = step.target
        return tuple(steps)

    def refusal(self, version: str) -> str:
        """Returns the message for an unsupported version."""
        return (
            f"this is {self.what} of version {version[:40]}, this package reads {self.version}; "
            "make it again with this release, or read it with the one that wrote it"
        )


TEXT = Form("text", "0.5")
PROGRAM_JSON = Form("JSON of a program", "0.5")
SIGNATURE_JSON = Form("JSON of a signature", "0.2")
ARTIFACT = Form("an artifact", "0.2")
