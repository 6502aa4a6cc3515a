"""Serializes compiled kernels for stores and pipes."""

from __future__ import annotations

import hashlib
from functools import partial

from triton_runtime.protocols import Binary
from wrapper_ir import ir
from wrapper_ir.errors import ParseError
from wrapper_ir.json.decode import dump, each, field, load, string
from wrapper_ir.json.model_codecs import decode, encode
from wrapper_ir.support.json_value import Json

_MAGIC = b"triton-binary-2\n"
_DIGEST = 32


def binary_to_bytes(binary: Binary) -> bytes:
    """A header line, a sha256 of the rest, and the parts, each after its length."""
    about: dict[str, Json] = {
        "target": binary.target,
        "compiler": binary.compiler,
        "facts": encode(ir.LaunchFacts, binary.facts),
        "maps": [encode(ir.TensorMap, m) for m in binary.maps],
    }
    parts = (dump(about).encode(), binary.image, binary.assembly.encode())
    body = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return _MAGIC + hashlib.sha256(body).digest() + body


def binary_from_bytes(data: bytes) -> Binary:
    """The inverse of `binary_to_bytes`; raises ValueError for anything else."""
    head = len(_MAGIC) + _DIGEST
    body = data[head:]
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : head] != hashlib.sha256(body).digest():
        raise ValueError("these bytes are not a compiled kernel, or damaged")
    parts: list[bytes] = []
    while body:
        size = int.from_bytes(body[:8], "little")
        parts.append(body[8 : 8 + size])
        body = body[8 + size :]
    about, image, assembly = parts
    try:
        return load(about.decode(), lambda o: _binary(o, image, assembly.decode()))
    # another version may write the same header
    except ParseError as error:
        raise ValueError(f"these bytes are not a compiled kernel: {error}") from error


def _binary(about: dict[str, Json], image: bytes, assembly: str) -> Binary:
    return Binary(
        image=image,
        assembly=assembly,
        target=field(about, "target", string),
        compiler=field(about, "compiler", string),
        facts=field(about, "facts", partial(decode, ir.LaunchFacts)),
        maps=field(about, "maps", partial(each, read=partial(decode, ir.TensorMap))),
    )
