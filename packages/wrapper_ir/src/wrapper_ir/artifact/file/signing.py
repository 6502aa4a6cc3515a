"""Ed25519 signatures of `.wir` files, by the package `cryptography` (`wrapper-ir-tools[sign]`).

A seal detects damage, but does not authenticate: a signature does, for the holder of the author's public key.
It covers every preceding byte of the file: all entries, their names and places, and, by the manifest's hash,
the constants. Keys are PEM files, as `openssl genpkey -algorithm ed25519` writes them.
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
    """Signs the file at `path` with a private key and writes it to `output` (default: `path`), atomically.

    An existing signature is replaced. `password` is that of an encrypted key.

    Raises ArtifactError: WIR701 the file cannot be written, WIR702 to WIR706 it cannot be read or is damaged,
    WIR716 the key is not a private Ed25519 key, WIR717 the package `cryptography` is missing.
    """
    private = _private_key(key, password)
    sign_container(path, path if output is None else output, private.sign)


def authentication(public_key: Key) -> Authenticate:
    """Returns a checker of signatures, which raises WIR714 (unsigned) or WIR715 (invalid signature).

    Raises ArtifactError WIR716 if the key is not a public Ed25519 key, WIR717 if the package `cryptography`
    is missing.
    """
    public = _public_key(public_key)
    from cryptography.exceptions import InvalidSignature  # installed, since the key was read

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

        loaded = load_pem_private_key(_pem(key), password)
    if not isinstance(loaded, Ed25519PrivateKey):
        raise _bad_key(f"the key is not an Ed25519 key but {type(loaded).__name__}")
    return loaded


def _public_key(key: Key) -> Ed25519PublicKey:
    with _library("public"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        loaded = load_pem_public_key(_pem(key))
    if not isinstance(loaded, Ed25519PublicKey):
        raise _bad_key(f"the key is not an Ed25519 key but {type(loaded).__name__}")
    return loaded


@contextmanager
def _library(kind: str) -> Iterator[None]:
    """Turns a missing package `cryptography` and its errors into ArtifactError."""
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
        hint="`openssl genpkey -algorithm ed25519` creates a key, `openssl pkey -pubout` its public key",
    )
