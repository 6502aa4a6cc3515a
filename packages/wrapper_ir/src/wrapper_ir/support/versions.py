"""Versions of the stored forms, and how an older document becomes one that is read today.

Each form has a version of its own. Before the first release a change raises the number, and older files are refused by
name. After it, a change adds an `Upgrader` too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wrapper_ir.support.json_value import Json


@dataclass(frozen=True, slots=True)
class Upgrader:
    """One step: `apply` makes a document of version `target` of one of version `source`.

    It changes what differs; all other fields, optional ones included, are carried along.
    """

    source: str
    target: str
    apply: Callable[[dict[str, Json]], dict[str, Json]]


@dataclass(frozen=True, slots=True)
class Form:
    """A stored form: what messages call it, the version that is written and read, the steps from older versions."""

    what: str
    version: str
    upgraders: tuple[Upgrader, ...] = ()

    def steps(self, version: str) -> tuple[Upgrader, ...] | None:
        """What leads from `version` to today's, in order; None where nothing does."""
        found: list[Upgrader] = []
        while version != self.version:
            step = next((u for u in self.upgraders if u.source == version), None)
            if step is None or step in found:
                return None
            found.append(step)
            version = step.target
        return tuple(found)

    def refusal(self, version: str) -> str:
        """The message for a version that is not read."""
        return (
            f"this is {self.what} of version {version[:40]}, this package reads {self.version}; make it again with "
            "this release, or read it with the one that wrote it"
        )


TEXT = Form("text", "0.3")
PROGRAM_JSON = Form("JSON of a program", "0.3")
SIGNATURE_JSON = Form("JSON of a signature", "0.2")
ARTIFACT = Form("an artifact", "0.2")
