"""Which processes of its groups may run an artifact.

A capture fixes what the model asks of its process: its rank, its shard of a weight. So an artifact says which rank made it, and of
which other ranks it is known that their artifacts are the same (`wrapper_ir_runtime.compare_ranks` asks them).
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
    """The `ranks` among `size` processes of a group that may run an artifact. `differences` has, by rank, the first line in which
    the artifact of another one differs, as far as they were compared."""

    group: str
    size: int
    ranks: tuple[int, ...]
    differences: tuple[tuple[int, str], ...] = ()

    def difference(self, rank: int) -> str:
        """In what the artifact of this rank differs; '' where they were not compared."""
        return dict(self.differences).get(rank, "")


def group_ranks(artifact: Artifact) -> tuple[GroupRanks, ...]:
    """Which ranks may run an artifact, by group; groups that are not named are not checked. Raises ArtifactError WIR718 where it is
    not written so."""
    text = artifact.extensions.get(_EXTENSION)
    if text is None:
        return ()
    try:
        return tuple(_from_record(record) for record in json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ArtifactError("WIR718", f"extension {_EXTENSION} is malformed: {error}") from error


def with_group_ranks(artifact: Artifact, ranks: Iterable[GroupRanks]) -> Artifact:
    """The artifact for these ranks; without any, for every process."""
    others = {name: text for name, text in artifact.extensions.items() if name != _EXTENSION}
    records = [dataclasses.asdict(one) for one in ranks]
    own = {_EXTENSION: json.dumps(records, sort_keys=True)} if records else {}
    return dataclasses.replace(artifact, extensions=others | own)


def _from_record(record: dict[str, object]) -> GroupRanks:
    match record:
        case {"group": str(group), "size": int(size), "ranks": list(ranks), "differences": list(differences)}:
            return GroupRanks(
                group=group,
                size=size,
                ranks=tuple(int(rank) for rank in ranks),
                differences=tuple((int(rank), str(line)) for rank, line in differences),
            )
        case _:
            raise ValueError(f"{record!r} does not describe a group")
