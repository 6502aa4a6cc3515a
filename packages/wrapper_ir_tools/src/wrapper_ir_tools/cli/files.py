"""Reads what a command is given: a `.wir` artifact, or a program as text or JSON."""

from __future__ import annotations

import sys

from wrapper_ir import from_json, load, parse_program
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ArtifactError
from wrapper_ir.ir.program import Program
from wrapper_ir.support.files import opened

_ZIP = b"PK"


def read_artifact(path: str, public_key: str | None = None) -> Artifact:
    """The artifact in a `.wir` file, signed with the key to `public_key` where that is given; raises ArtifactError."""
    return load(path, public_key=public_key)


def read_program(path: str, public_key: str | None = None) -> Program:
    """The program in a `.wir` file, in `.json`, in text form, or as text on standard input (`-`); `public_key` as in
    `read_any`."""
    found = read_any(path, public_key)
    return found.program if isinstance(found, Artifact) else found


def read_any(path: str, public_key: str | None = None) -> Program | Artifact:
    """The artifact in a `.wir` file, or the program in any other. With a `public_key`, the file must be a signed artifact: text
    has no signature."""
    if public_key is not None:
        return read_artifact(path, public_key)
    if path == "-":
        return parse_program(sys.stdin.read())
    try:
        with opened(path) as file:
            start = file.read(len(_ZIP))
            rest = b"" if start == _ZIP else file.read()
    except OSError as error:
        raise ArtifactError("WIR702", f"cannot read {path!r}: {error.strerror}") from error
    if start == _ZIP:
        return load(path)
    try:
        text = (start + rest).decode()
    except UnicodeDecodeError as error:
        raise ArtifactError("WIR702", f"cannot read {path!r}: neither a .wir artifact nor text") from error
    return from_json(text) if text.lstrip().startswith("{") else parse_program(text)
