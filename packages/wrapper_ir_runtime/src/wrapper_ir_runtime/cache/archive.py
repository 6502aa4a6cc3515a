"""Packs entries into one zip file for another cache: `namespace/name/file`, each entry with its manifest."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from wrapper_ir.errors import StoreError
from wrapper_ir_runtime.cache.manifest import MANIFEST, DamagedEntry, check_bytes, parse_manifest

_PATH = re.compile(r"([a-z][a-z0-9-]*)/([0-9a-f]{64})/(.+)", re.DOTALL)


def pack(entries: Iterable[tuple[str, str, Path]]) -> bytes:
    """Returns the zip file of entries, given the namespace, name and folder of each. Raises OSError."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for namespace, name, folder in entries:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                place = f"{namespace}/{name}/{path.relative_to(folder).as_posix()}"
                archive.writestr(zipfile.ZipInfo(place), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return data.getvalue()


def unpack(data: bytes) -> Iterator[tuple[str, str, Mapping[str, bytes]]]:
    """Yields the entries of a zip file: namespace, name, and files without the manifest.

    Raises StoreError WIR260 if an entry does not match its manifest.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for (namespace, name), files in _grouped(archive).items():
                described = parse_manifest(files.pop(MANIFEST, b""), name)
                if described.keys() != files.keys():
                    raise DamagedEntry(f"{namespace}/{name} has other files than its manifest")
                for file, content in files.items():
                    check_bytes(file, content, described)
                yield namespace, name, files
    except (zipfile.BadZipFile, DamagedEntry, EOFError, NotImplementedError, OSError, RuntimeError) as error:
        raise StoreError("WIR260", f"these are not entries of a cache: {error}") from error


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Writes files, given by path, to `folder`. Raises OSError."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _grouped(archive: zipfile.ZipFile) -> Mapping[tuple[str, str], dict[str, bytes]]:
    entries: dict[tuple[str, str], dict[str, bytes]] = {}
    for info in archive.infolist():
        match = _PATH.fullmatch(info.filename)
        if match is None:
            raise DamagedEntry(f"a file is called {info.filename!r}")
        namespace, name, file = match.groups()
        entries.setdefault((namespace, name), {})[file] = archive.read(info)
    return entries
