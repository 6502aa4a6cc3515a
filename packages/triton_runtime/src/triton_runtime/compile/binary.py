"""Compiled kernels as bytes, for stores and pipes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from triton_runtime.protocols import Binary, BinaryFacts

__all__ = ["binary_from_bytes", "binary_to_bytes"]

_MAGIC = b"triton-binary-1\n"
_DIGEST = 32


def binary_to_bytes(binary: Binary) -> bytes:
    """A line that says what it is, a sha256 of the rest, and the parts, each behind its length."""
    facts = json.dumps(asdict(binary.facts), sort_keys=True).encode()
    parts = (facts, binary.image, binary.assembly.encode())
    body = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return _MAGIC + hashlib.sha256(body).digest() + body


def binary_from_bytes(data: bytes) -> Binary:
    """The inverse of `binary_to_bytes`; raises ValueError for anything else."""
    head = len(_MAGIC) + _DIGEST
    body = data[head:]
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : head] != hashlib.sha256(body).digest():
        raise ValueError("these bytes are no compiled kernel, or damaged")
    parts: list[bytes] = []
    while body:
        size = int.from_bytes(body[:8], "little")
        parts.append(body[8 : 8 + size])
        body = body[8 + size :]
    facts, image, assembly = parts
    return Binary(image=image, assembly=assembly.decode(), facts=BinaryFacts(**json.loads(facts)))
