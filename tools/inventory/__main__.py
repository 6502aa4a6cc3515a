"""Compares a torch with its inventory: `python -m tools.inventory`. Exit status 1 if they differ.

`--source PATH` reads another torch than the installed one (the folder `torch` of its sources). `--against
VERSION` compares it with the inventory of another version, which lists the changes since. `--update` writes
the inventory of that torch, starting from its own or else from the nearest version's. docs/next-torch.md
describes how to use the output.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.inventory.compare import differences, updated
from tools.inventory.places import SourceTree
from tools.inventory.record import FOLDER, UNCLASSIFIED, Inventory


def installed_torch() -> Path:
    """The folder of the installed torch, which is not loaded."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def start(version: str) -> Inventory | None:
    """Returns the base of an updated inventory: its own, or that of the nearest version, or None."""
    versions = Inventory.known()
    if not versions:
        return None
    number = [int(p) for p in version.split(".")]

    def distance(other: str) -> int:
        theirs = [int(p) for p in other.split(".")]
        return abs((theirs[0] - number[0]) * 1000 + theirs[1] - number[1])

    return Inventory.load(
        min(reversed(versions), key=distance)
    )  # of two, the newer: it includes newer entries


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.inventory", description=__doc__)
    parser.add_argument("--source", type=Path, default=None, help="the folder `torch` of a source tree")
    parser.add_argument(
        "--against", metavar="VERSION", default=None, help="the version to compare with, as 2.13"
    )
    parser.add_argument("--update", action="store_true", help="write the inventory instead of comparing")
    args = parser.parse_args(arguments)
    tree = SourceTree(args.source or installed_torch())
    if args.update:
        if args.against:
            parser.error("--update takes no --against")
        inventory = updated(tree, start(tree.version))
        FOLDER.mkdir(exist_ok=True)
        Inventory.path(tree.version).write_text(inventory.to_json(), encoding="utf-8")
    else:
        inventory = Inventory.load(args.against or tree.version)
    messages = differences(tree, inventory)
    messages += [
        f"UNCLASSIFIED {section}: {file} {group} {entry.by}".rstrip()
        for section, file, group, entry in inventory.entries()
        if entry.treatment == UNCLASSIFIED
    ]
    for message in messages:
        print(message)
    print(f"torch {tree.version} against the inventory of {inventory.torch}: {len(messages)} findings")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
