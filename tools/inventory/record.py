"""The committed inventory of one torch version: every place with its handling by capture, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.inventory.places import Place

FOLDER = Path(__file__).resolve().parents[2] / "packages" / "inductor_frontend" / "tests" / "inventory"
UNCLASSIFIED = "unclassified"

TREATMENTS: Mapping[str, str] = {
    "event": "capture overrides what runs it, and records the events named",
    "dropped": "runs only below the hook named, which capture overrides to keep nothing",
    "changed": "capture's own class named overrides it with another meaning",
    "inherited": "used as it is; text sites in it are entries of their own",
    "line": "text of the line class named, which is never made",
    "node": "below the codegen of the node class named, which capture replaces in each node",
    "handled": "a node class that the handler named translates",
    "abstract": "a base class that Inductor never makes a node of",
    "refused": "stops the capture with the code named",
    "off": "needs the Inductor option named, which a capture pins",
    "device": "for other devices than the CPU, which the hook named refuses",
    "other": "of another wrapper generator, which the hook named never makes",
    "kernel": "source of a kernel, part of the event named",
    "buffer": "the text buffer's own code",
    "debug": "text for logs and people, not for wrappers",
}
"""Treatments of a place by capture, and the name that each entry has beside it."""

Section = dict[str, dict[str, "Entry"]]


@dataclass(frozen=True, slots=True)
class Entry:
    """The treatment of the places of one group: its name, its mechanism, and the digests."""

    treatment: str = UNCLASSIFIED
    by: str = ""
    digests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """`files` are whole files that need no reading, by name.

    Each section has entries by file and by group.
    """

    torch: str
    files: dict[str, Entry] = field(default_factory=dict)
    sections: dict[str, Section] = field(default_factory=dict)

    def entries(self) -> Iterator[tuple[str, str, str, Entry]]:
        """(section, file, group, entry) of everything, whole files with the section `files`."""
        for file, entry in self.files.items():
            yield "files", file, "", entry
        for name, section in self.sections.items():
            for file, by_group in section.items():
                for group, entry in by_group.items():
                    yield name, file, group, entry

    @staticmethod
    def path(version: str) -> Path:
        """Returns the path of a version's inventory."""
        return FOLDER / f"torch-{version}.json"

    @staticmethod
    def known() -> list[str]:
        """The versions that have one, oldest first."""
        names = (p.stem.removeprefix("torch-") for p in FOLDER.glob("torch-*.json"))
        return sorted(names, key=lambda n: [int(part) for part in n.split(".")])

    @staticmethod
    def load(version: str) -> Inventory:
        """Loads the inventory of a version; raises FileNotFoundError that names the command to create one."""
        path = Inventory.path(version)
        if not path.exists():
            versions = ", ".join(Inventory.known())
            raise FileNotFoundError(
                f"no inventory of torch {version} (there are those of {versions}): write one with "
                "`python -m tools.inventory --update`, then say of each new place what capture makes of it"
            )
        return Inventory.from_json(path.read_text(encoding="utf-8"))

    @staticmethod
    def from_json(text: str) -> Inventory:
        """Reads the output of `to_json`."""
        data = json.loads(text)
        sections = {
            name: {f: {g: _entry(e) for g, e in groups.items()} for f, groups in files.items()}
            for name, files in data["sections"].items()
        }
        files = {name: _entry(e) for name, e in data["files"].items()}
        return Inventory(torch=data["torch"], files=files, sections=sections)

    def to_json(self) -> str:
        """Formats one group per line, so that a difference between versions is readable."""
        parts = [
            f'{{\n"torch": {json.dumps(self.torch)},\n"files": {{\n{_lines(self.files)}\n}},\n"sections": {{\n'
        ]
        sections = []
        for name, section in self.sections.items():
            files = [
                f" {json.dumps(f)}: {{\n{_lines(by_group)}\n }}" for f, by_group in sorted(section.items())
            ]
            sections.append(f"{json.dumps(name)}: {{\n" + ",\n".join(files) + "\n}")
        return "".join(parts) + ",\n".join(sections) + "\n}\n}\n"


def _entry(data: Mapping[str, str]) -> Entry:
    return Entry(data["is"], data["by"], tuple(data.get("digests", "").split()))


def _lines(entries: Mapping[str, Entry]) -> str:
    lines = []
    for name, entry in sorted(entries.items()):
        fields = {"is": entry.treatment, "by": entry.by}
        if entry.digests:
            fields["digests"] = " ".join(entry.digests)
        lines.append(f"  {json.dumps(name)}: {json.dumps(fields)}")
    return ",\n".join(lines)


def groups(places: Iterable[Place]) -> dict[str, dict[str, list[Place]]]:
    """Places by file and by group, in the order of the source."""
    by_file: dict[str, dict[str, list[Place]]] = {}
    for place in places:
        by_file.setdefault(place.file, {}).setdefault(place.key, []).append(place)
    return by_file
