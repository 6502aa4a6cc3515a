"""Reads the input of a command: a `.wir` artifact, or a program as text or JSON."""

from __future__ import annotations

import sys

from wrapper_ir import from_json, ir, load, parse_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import ArtifactError
from wrapper_ir.support.files import opened

_ZIP = b"PK"


def read_artifact(path: str, public_key: str | None = None) -> Artifact:
    """Loads a `.wir` file; a `public_key` requires a signature by its private key. Raises ArtifactError."""
    return load(path, public_key=public_key)


def read_program(path: str, public_key: str | None = None) -> ir.Program:
    """Reads a program from a `.wir` file, `.json`, text, or text on standard input (`-`). See `read_any`."""
    return program_of(read_any(path, public_key))


def program_of(content: ir.Program | Artifact) -> ir.Program:
    """Returns the program of a file's content."""
    return content.program if isinstance(content, Artifact) else content


def artifact_of(content: ir.Program | Artifact) -> Artifact:
    """Returns a file's content as an artifact: a program alone has no constants."""
    return content if isinstance(content, Artifact) else bare_artifact(content)


def read_any(path: str, public_key: str | None = None) -> ir.Program | Artifact:
    """Reads an artifact from a `.wir` file, or a program from any other file.

    With a `public_key`, the file must be a signed artifact: text has no signature.
    """
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
