"""One entry as bytes: a header line that says what it is and of which content, then the content.

```
wrapper-ir-store 1 {"key": "<sha256 of the key's text>", "kind": "kernel", "sha256": "<of the payload>", "size": 4711}
<payload>
```
"""

from __future__ import annotations

import enum
import hashlib
import json

__all__ = ["DamagedEntry", "EntryKind", "key_hash", "pack", "unpack"]

_MAGIC = b"wrapper-ir-store 1 "


class DamagedEntry(Exception):
    """An entry is not what its writer wrote, or is another one's."""


class EntryKind(enum.Enum):
    """What entries hold. The same key text may be used for each kind."""

    KERNEL = "kernel"
    """A compiled kernel."""
    TUNING = "tuning"
    """Measured times of a kernel's configs."""
    CHOICE = "choice"
    """Which of several kernels was chosen."""


def key_hash(key: str) -> str:
    """Sha256 (hex) of a key's text: the name of its entry."""
    return hashlib.sha256(key.encode()).hexdigest()


def pack(kind: EntryKind, key: str, payload: bytes) -> bytes:
    """The bytes of an entry."""
    header = {
        "key": key_hash(key),
        "kind": kind.value,
        "sha256": hashlib.sha256(payload).hexdigest(),
        "size": len(payload),
    }
    return _MAGIC + json.dumps(header, sort_keys=True).encode() + b"\n" + payload


def unpack(data: bytes, kind: EntryKind, key: str) -> bytes:
    """The payload of an entry that was found under this kind and key. Raises DamagedEntry, which says what is wrong."""
    head, newline, payload = data.partition(b"\n")
    if not head.startswith(_MAGIC) or not newline:
        raise DamagedEntry("it does not begin as entries of this version do")
    try:
        header = json.loads(head[len(_MAGIC) :])
    except ValueError as error:
        raise DamagedEntry("its header is not JSON") from error
    wanted = {"key": key_hash(key), "kind": kind.value}
    if not isinstance(header, dict) or {name: header.get(name) for name in wanted} != wanted:
        raise DamagedEntry("it belongs to another key")
    if header.get("size") != len(payload):
        raise DamagedEntry(f"it holds {len(payload)} of {header.get('size')} bytes")
    if header.get("sha256") != hashlib.sha256(payload).hexdigest():
        raise DamagedEntry("its content does not fit its hash")
    return payload
