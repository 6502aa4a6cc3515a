"""Files of kernels compiled ahead of time: their images, and a table with their launch parameters."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from wrapper_ir import ir
from wrapper_ir.errors import ArtifactError
from wrapper_ir.json.decode import dump, each, fault, field, integer, load, obj, only, string
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir.json.model_codecs import decode, encode
from wrapper_ir.support.json_value import Json

BINARIES_TABLE = "binaries.json"
BINARIES_VERSION = 2
_HASH = re.compile(r"[0-9a-f]{16,128}")


def _file(binary: ir.KernelBinary) -> str:
    return f"binaries/{binary.key}.{binary.kind.value}"


def binary_files(binaries: Iterable[ir.KernelBinary]) -> dict[str, bytes]:
    """Returns the images by file name.

    Raises ArtifactError WIR712 for a key that is not a hash, or that two different images share.
    """
    files: dict[str, bytes] = {}
    for binary in binaries:
        if not _HASH.fullmatch(binary.key):
            raise ArtifactError("WIR712", f"the key of a compiled kernel is not a hash: {binary.key!r}")
        if files.setdefault(_file(binary), binary.image) != binary.image:
            raise ArtifactError("WIR712", f"two different compiled kernels have the key {binary.key}")
    return files


def binaries_to_json(binaries: Iterable[ir.KernelBinary]) -> str:
    """Returns the text of `binaries.json`: a version, and a row per kernel with its image's sha256."""
    rows: list[Json] = [{**encode(ir.KernelBinary, b), "file": _file(b)} for b in binaries]
    return dump({"version": BINARIES_VERSION, "binaries": rows})


def binaries_from_json(
    text: str, read: Callable[[str], bytes], kernels: Iterable[ir.KernelDef]
) -> tuple[ir.KernelBinary, ...]:
    """Returns the compiled kernels of a table; `read` reads a file, `kernels` are the program's.

    Raises ParseError for a malformed table, another version, or an image that does not match its hash.
    """
    params = {content_hash(kernel): kernel.params for kernel in kernels}

    def row(entry: Json) -> ir.KernelBinary:
        fields = obj(entry)
        # The grid of a config uses the numbers of its kernel.
        names = ir.KernelNames(params.get(field(fields, "kernel", string), ()))
        bare = decode(ir.KernelBinary, {name: x for name, x in fields.items() if name != "file"}, names)
        if not _HASH.fullmatch(bare.key):
            fault(f"{bare.key!r} is not a hash")
        if field(fields, "file", string) != _file(bare):
            fault(f"the image is expected in {_file(bare)}")
        image = read(_file(bare))
        if hashlib.sha256(image).hexdigest().encode() != bare.image:
            fault(f"{_file(bare)} does not fit its hash")
        return replace(bare, image=image)

    def table(document: dict[str, Json]) -> tuple[ir.KernelBinary, ...]:
        only(document, ("version", "binaries"))
        if (version := field(document, "version", integer)) != BINARIES_VERSION:
            fault(f"compiled kernels of version {version}; this package reads version {BINARIES_VERSION}")
        return field(document, "binaries", lambda rows: each(rows, row))

    return load(text, table)
