"""Writes the files of libraries and of their constants (`wrapper_ir_native.file` describes the format)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from cpp_wrapper.sources.constants import Blob, constant_pieces
from cpp_wrapper.sources.description import Weights
from wrapper_ir.support.files import replacing
from wrapper_ir_native.file import CHECKSUM, CHUNK, FOOTER, MAGIC, PAGE, WEIGHTS


def constant_checksums(constants: Sequence[Blob]) -> bytes:
    """Returns the checksum of each chunk of the constants' bytes, as stored in a file."""
    checksums: list[bytes] = []
    crc, free = 0, CHUNK
    for piece in constant_pieces(constants):
        rest = piece
        while len(rest) > 0:
            head, rest = rest[:free], rest[free:]
            crc, free = zlib.crc32(head, crc), free - len(head)
            if free == 0:
                checksums.append(CHECKSUM.pack(crc))
                crc, free = 0, CHUNK
    return b"".join(checksums) + (CHECKSUM.pack(crc) if free < CHUNK else b"")


def write_image(file: BinaryIO, code: bytes, constants: Sequence[Blob], metadata: str) -> None:
    """Writes a library."""
    padded = code + bytes(-len(code) % PAGE)
    nbytes = constants[-1].offset + constants[-1].nbytes if constants else 0
    text = metadata.encode()
    with ThreadPoolExecutor(1) as pool:  # both let other threads run
        checksums = pool.submit(constant_checksums, constants)
        file.write(padded)
        for piece in constant_pieces(constants):
            file.write(piece)
    table = checksums.result() + CHECKSUM.pack(zlib.crc32(padded)) + CHECKSUM.pack(zlib.crc32(text))
    footer = FOOTER.pack(MAGIC, len(padded), nbytes, len(text))
    file.write(text)
    file.write(table + CHECKSUM.pack(zlib.crc32(table + footer)) + footer)


def write_weights(weights: Weights, constants: Sequence[Blob], folder: Path) -> None:
    """Writes the file of a library's constants, unless the file in the folder has them. Raises OSError."""
    path, head = folder / weights.file, f"{WEIGHTS}{weights.identity}\n".encode()
    if path.is_file():
        with open(path, "rb") as existing:
            if existing.read(len(head)) == head:
                return
    with replacing(path) as temporary, open(temporary, "wb") as file:
        write_image(file, head, constants, json.dumps({"weights": weights.identity}))
