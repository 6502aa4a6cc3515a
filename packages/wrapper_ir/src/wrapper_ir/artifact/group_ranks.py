"""Ranks of process groups that may run an artifact.

A capture specializes the model to its process: its rank, its shard of a weight. An artifact therefore names
the rank that captured it, and other ranks with an equal artifact (`wrapper_ir_runtime.compare_ranks` compares
them).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wrapper_ir.errors import ArtifactError

if TYPE_CHECKING:
    from wrapper_ir.artifact import Artifact

_EXTENSION = "group_ranks.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRanks:
    """The `ranks` among `size` processes of a group that may run an artifact.

    `differences` has the first different line of the artifacts of other compared ranks, by rank.
    """

    group: str
    size: int
    ranks: tuple[int, ...]
    differences: tuple[tuple[int, str], ...] = ()

    def difference(self, rank: int) -> str:
        """Returns the first line in which the artifact of this rank differs; '' if it was not compared."""
        return dict(self.differences).get(rank, "")


def group_ranks(artifact: Artifact) -> tuple[GroupRanks, ...]:
    """Returns the ranks that may run an artifact, by group. Groups without an entry are not checked.

    Raises ArtifactError WIR718 if the extension is malformed.
    """
    text = artifact.extensions.get(_EXTENSION)
    if text is None:
        return ()
    try:
        return tuple(map(_from_json, json.loads(text)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ArtifactError("WIR718", f"extension {_EXTENSION} is malformed: {error}") from error


def with_group_ranks(artifact: Artifact, ranks: Iterable[GroupRanks]) -> Artifact:
    """Returns the artifact restricted to these ranks; without any, every process may run it."""
    others = {name: text for name, text in artifact.extensions.items() if name != _EXTENSION}
    entries = [dataclasses.asdict(one) for one in ranks]
    own = {_EXTENSION: json.dumps(entries, sort_keys=True)} if entries else {}
    return dataclasses.replace(artifact, extensions=others | own)


def _from_json(entry: object) -> GroupRanks:
    match entry:
        case {"group": str(group), "size": int(size), "ranks": list(ranks), "differences": list(differences)}:
            return GroupRanks(
                group=group,
                size=size,
                ranks=tuple(int(rank) for rank in ranks),
                differences=tuple((int(rank), str(line)) for rank, line in differences),
            )
        case _:
            raise ValueError(f"{entry!r} does not describe a group")
