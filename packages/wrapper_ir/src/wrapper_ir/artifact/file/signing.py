"""Signatures of `.wir` files: Ed25519, with a key of the user's, by the package `cryptography` (`wrapper-ir-tools[sign]`).

A seal shows damage; anyone can make one. A signature says who wrote a file, to whoever has that person's public key. It
covers every byte of the file before it: all entries, their names and places, and, through the manifest's hash, the
constants. Keys are PEM files, as `openssl genpkey -algorithm ed25519` writes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wrapper_ir.artifact.file.container import Authenticate, sign_container
from wrapper_ir.errors import ArtifactError
from wrapper_ir.support.files import opened

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Key = str | os.PathLike[str] | bytes
"""A key: the path of a PEM file, or the PEM text as bytes."""


def sign(
    path: str | os.PathLike[str],
    key: Key,
    output: str | os.PathLike[str] | None = None,
    *,
    password: bytes | None = None,
) -> None:
    """Writes the file at `path`, signed with a private key, to `output`, or in its place; a signature that it has is
    replaced. Like `save`, this replaces a file by renaming. `password` is that of an encrypted key.

    Raises ArtifactError: WIR701 where the file cannot be written, WIR702 to WIR706 where it cannot be read or is damaged,
    WIR716 for a key that is not a private Ed25519 key, WIR717 without the package `cryptography`.
    """
    private = _private_key(key, password)
    sign_container(path, path if output is None else output, private.sign)


def authentication(public_key: Key) -> Authenticate:
    """What checks a file's signature. Raises ArtifactError WIR716 for a key that is not a public Ed25519 key, WIR717 without
    the package `cryptography`; what it gives raises WIR714 for a file that is not signed, WIR715 for a signature that
    another key made, or made for other bytes."""
    public = _public_key(public_key)
    from cryptography.exceptions import InvalidSignature  # there: the key was read

    def check(message: bytes, signature: bytes) -> None:
        if not signature:
            raise ArtifactError(
                "WIR714",
                "the file is not signed",
                hint="`wir sign FILE --key KEY` signs it, or load without a key",
            )
        try:
            public.verify(signature, message)
        except InvalidSignature:
            raise ArtifactError(
                "WIR715",
                "the signature was not made with this key for these bytes",
                hint="do not use this file, or ask its author for the right public key",
            ) from None

    return check


def _pem(key: Key) -> bytes:
    if isinstance(key, bytes):
        return key
    try:
        with opened(key) as file:
            return file.read()
    except OSError as error:
        raise ArtifactError("WIR716", f"cannot read the key {os.fspath(key)!r}: {error.strerror}") from error


def _private_key(key: Key, password: bytes | None) -> Ed25519PrivateKey:
    with _library("private"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        found = load_pem_private_key(_pem(key), password)
    if not isinstance(found, Ed25519PrivateKey):
        raise _bad_key(f"the key is not an Ed25519 key but {type(found).__name__}")
    return found


def _public_key(key: Key) -> Ed25519PublicKey:
    with _library("public"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        found = load_pem_public_key(_pem(key))
    if not isinstance(found, Ed25519PublicKey):
        raise _bad_key(f"the key is not an Ed25519 key but {type(found).__name__}")
    return found


@contextmanager
def _library(kind: str) -> Iterator[None]:
    """Within, the package `cryptography` reads a key."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
    except ImportError as error:
        raise ArtifactError(
            "WIR717", "signatures need the package cryptography", hint="pip install 'wrapper-ir-tools[sign]'"
        ) from error
    try:
        yield
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise _bad_key(f"the {kind} key cannot be read: {error}") from error


def _bad_key(message: str) -> ArtifactError:
    return ArtifactError(
        "WIR716",
        message,
        hint="`openssl genpkey -algorithm ed25519` makes a key, `openssl pkey -pubout` its public one",
    )
