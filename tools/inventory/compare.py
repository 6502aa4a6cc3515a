"""Compares a torch source tree with its inventory: new, changed and missing places; and updates the
inventory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tools.inventory.places import Place, SourceTree
from tools.inventory.record import UNCLASSIFIED, Entry, Inventory, Section, groups

SECTIONS = ("text", "generators", "hooks")

_WHAT_TO_DO = (
    "see what Inductor does there, teach capture about it if it must know, then run "
    "`python -m tools.inventory --update` and say in the inventory what capture makes of it"
)


def _places(tree: SourceTree, inventory: Inventory | None) -> dict[str, list[Place]]:
    tree = tree.without(inventory.files if inventory else ())
    return {"text": tree.text_sites(), "generators": tree.generators(), "hooks": tree.hooks()}


def differences(tree: SourceTree, inventory: Inventory) -> list[str]:
    """Returns one message per difference, with its place and the fix; empty if the tree is as recorded."""
    messages: list[str] = []
    for section, places in _places(tree, inventory).items():
        current, recorded = groups(places), inventory.sections[section]
        for file in sorted({*current, *recorded}):
            present, entries = current.get(file, {}), recorded.get(file, {})
            for group in sorted({*present, *entries}):
                messages += _compare(file, group, present.get(group, []), entries.get(group))
    return messages


def _compare(file: str, group: str, present: list[Place], entry: Entry | None) -> Iterator[str]:
    if entry is None:
        for place in present:
            yield f"NEW      {place}\n         {_WHAT_TO_DO}"
        return
    missing = Counter(entry.digests) - Counter(p.digest for p in present)
    new = Counter(p.digest for p in present) - Counter(entry.digests)
    for place in present:
        if new[place.digest]:
            new[place.digest] -= 1
            word = "CHANGED " if missing else "NEW     "
            yield f"{word} {place}\n         (recorded: {entry.treatment} {entry.by}) {_WHAT_TO_DO}"
    if missing and len(present) < len(entry.digests):
        yield (
            f"VANISHED torch/_inductor/{file} {group}: {sum(missing.values())} of {len(entry.digests)} places\n"
            f"         (recorded: {entry.treatment} {entry.by}) {_WHAT_TO_DO}"
        )


def updated(tree: SourceTree, old: Inventory | None) -> Inventory:
    """Returns the inventory of `tree`.

    Groups that are as in `old` keep their entries; all others must be classified, and `by` is then the
    group's earlier treatment.
    """
    sections: dict[str, Section] = {}
    for section, places in _places(tree, old).items():
        earlier = old.sections[section] if old else {}
        sections[section] = {
            file: {g: _merged(found, earlier.get(file, {}).get(g)) for g, found in by_group.items()}
            for file, by_group in groups(places).items()
        }
    return Inventory(torch=tree.version, files=dict(old.files) if old else {}, sections=sections)


def _merged(present: list[Place], old: Entry | None) -> Entry:
    digests = tuple(sorted(p.digest for p in present))
    if old is None:
        return Entry(UNCLASSIFIED, "", digests)
    if Counter(digests) - Counter(old.digests) and old.treatment != UNCLASSIFIED:
        return Entry(UNCLASSIFIED, f"was {old.treatment} {old.by}", digests)
    return Entry(old.treatment, old.by, digests)
