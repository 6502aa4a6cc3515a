"""Manifest of an entry: `manifest.json`, written last and read first.

```
{"files": {"main.py": [4711, "<sha256>"]}, "format": 1, "key": "<sha256 of the namespace and the key>"}
```

A file of an entry is used only if its size, its hash and the entry's key match the manifest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from wrapper_ir_runtime.cache.ownership import check_own, keep_own

MANIFEST = "manifest.json"
_FORMAT = 1

Files = Mapping[str, tuple[int, str]]
"""Size and sha256 (hex) of each file, by its path relative to the entry's folder."""


class DamagedEntry(Exception):
    """An entry differs from what its writer wrote, or belongs to another key."""


def entry_name(namespace: str, key: str) -> str:
    """Returns the name of an entry: sha256 (hex) of its namespace and its key."""
    return hashlib.sha256(f"{namespace}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()


def seal(folder: Path, name: str) -> int:
    """Writes the manifest of the files in `folder`, and removes the write permission of others.

    Returns the size of the entry in bytes. Raises OSError.
    """
    tree = sorted(folder.rglob("*"))
    for path in filter(Path.exists, tree):  # a link may lead nowhere
        keep_own(path)
    paths = [path for path in tree if path.is_file()]
    files = {path.relative_to(folder).as_posix(): [path.stat().st_size, _digest(path)] for path in paths}
    text = json.dumps({"files": files, "format": _FORMAT, "key": name}, sort_keys=True)
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    keep_own(folder / MANIFEST)
    return len(text) + sum(path.stat().st_size for path in paths)


def parse_manifest(data: bytes, name: str) -> Files:
    """Returns the files of the entry `name`. Raises DamagedEntry."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedEntry("its manifest is not JSON") from error
    match content:
        case {"format": int(number)} if number != _FORMAT:
            raise DamagedEntry(f"its format is {number}, not {_FORMAT}")
        case {"key": str(key), "files": dict(files)} if key == name:
            return {_relative(path): _described(facts) for path, facts in files.items()}
        case {"key": str()}:
            raise DamagedEntry("it belongs to another key")
        case _:
            raise DamagedEntry("its manifest is of another form")


def check_files(folder: Path, files: Files) -> None:
    """Raises DamagedEntry if a file differs from its description, and OSError if it is unreadable or others
    may write it."""
    for name, (size, digest) in files.items():
        path = folder / name
        try:
            status = path.stat()
            check_own(status, path)
            for above in path.parents[: name.count("/")]:
                check_own(above.stat(), above)
            nbytes = status.st_size
            if nbytes != size:
                raise DamagedEntry(f"{name} holds {nbytes} of {size} bytes")
            if _digest(path) != digest:
                raise DamagedEntry(f"{name} does not fit its hash")
        except FileNotFoundError as error:
            raise DamagedEntry(f"{name} is missing") from error


def check_bytes(name: str, data: bytes, files: Files) -> None:
    """Raises DamagedEntry if `data` is not the content of the file `name`."""
    if name not in files:
        raise DamagedEntry(f"it has no file {name}")
    size, digest = files[name]
    if len(data) != size:
        raise DamagedEntry(f"{name} holds {len(data)} of {size} bytes")
    if hashlib.sha256(data).hexdigest() != digest:
        raise DamagedEntry(f"{name} does not fit its hash")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _relative(path: str) -> str:
    """Returns the path if it is inside the entry's folder; raises DamagedEntry."""
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") for part in parts) or "\\" in path or "\0" in path:
        raise DamagedEntry(f"its manifest names {path!r}")
    return path


def _described(facts: object) -> tuple[int, str]:
    match facts:
        case [int(size), str(digest)]:
            return size, digest
        case _:
            raise DamagedEntry("its manifest is of another form")
