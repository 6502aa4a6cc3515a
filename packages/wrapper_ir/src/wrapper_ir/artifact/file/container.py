"""A sealed zip: entries stored uncompressed at aligned offsets, written atomically, checked before use.

The archive's comment is a seal: a sha256 over every preceding byte of the file, except the large payload that
the manifest already hashes. It detects any damage, and no byte is hashed twice. In a signed file, a signature
of a sha256 over the same bytes up to the comment precedes the seal. Every zip tool can list and extract the
entries.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import re
import stat
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from wrapper_ir.errors import ArtifactError
from wrapper_ir.support.files import MAP_FROM, FileBytes, MappedFile, check_files, read_bytes, replacing

ALIGNMENT = 64
"""Every payload starts at a multiple of this many bytes."""
MANIFEST = "manifest.json"
_SEAL = b"wir-seal-1:"
_SEAL_LENGTH = len(_SEAL) + 64
_SIGNATURE = b"wir-ed25519-1:"
_SIGNATURE_LENGTH = len(_SIGNATURE) + 128
_SIGNED = b"wir-artifact-1\0"
"""Prefix of the signed hash, so that signatures with the same key for other purposes are not valid here."""
_END = struct.Struct("<4s4H2LH")
_LOCAL = struct.Struct("<4s5H3L2H")
_MAX_NAME = 255
_STREAMED = "constants.safetensors"
"""The entry whose payload only the manifest hashes."""

Chunks = Iterable[bytes | memoryview]
Authenticate = Callable[[bytes, bytes], None]
"""Receives the signed message and the signature (empty if unsigned); raises to refuse the file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry to write: its name, and its bytes in order."""

    name: str
    chunks: Chunks
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class Container:
    """An open, checked container.

    `entries` are views of the file's bytes, which they keep alive. `file` watches a mapped file.
    """

    entries: Mapping[str, memoryview]
    manifest: Mapping[str, object]
    file: MappedFile | None = None


def _check_name(name: str) -> None:
    parts = name.split("/")
    bad = (
        not name
        or len(name) > _MAX_NAME
        or name.startswith("/")
        or "\\" in name
        or ":" in name
        or any(p in ("", ".", "..") for p in parts)
        or any(ord(c) < 32 for c in name)
    )
    if bad:
        raise ArtifactError("WIR704", f"unsafe entry name {name!r}", hint="do not use this file")


def _padded_info(archive: zipfile.ZipFile, entry: Entry) -> tuple[zipfile.ZipInfo, bool]:
    """Returns a header whose extra field pads the payload to the alignment, and whether it needs zip64."""
    info = zipfile.ZipInfo(entry.name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_STORED
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    zip64 = entry.nbytes >= 1 << 31
    assert archive.fp is not None
    start = archive.fp.tell() + _LOCAL.size + len(entry.name.encode()) + (20 if zip64 else 0)
    pad = -(start + 4) % ALIGNMENT
    info.extra = struct.pack("<HH", 0xD935, pad) + bytes(pad)
    return info, zip64


def _write_entry(archive: zipfile.ZipFile, entry: Entry) -> str:
    info, zip64 = _padded_info(archive, entry)
    digest = hashlib.sha256()
    with archive.open(info, "w", force_zip64=zip64) as out:
        for chunk in entry.chunks:
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest()


def _digest(data: memoryview, skip: tuple[int, int], end: int) -> hashlib._Hash:
    """Hashes all bytes up to `end`, except those in the range `skip`."""
    digest = hashlib.sha256()
    digest.update(data[: skip[0]])
    digest.update(data[skip[1] : end])
    return digest


def _seal_digest(data: memoryview, skip: tuple[int, int]) -> bytes:
    return _SEAL + _digest(data, skip, len(data) - _SEAL_LENGTH).hexdigest().encode()


def _seal(path: str) -> None:
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        with memoryview(mapped) as data, _archive(data) as archive:
            skip = _streamed_range(archive, data)
            seal = _seal_digest(data, skip)
        mapped[len(mapped) - _SEAL_LENGTH :] = seal
        mapped.flush()


def write_container(
    path: str | os.PathLike[str], entries: Iterable[Entry], about: Mapping[str, object]
) -> None:
    """Writes all entries and a manifest (`about` plus every entry's sha256) to `path`, atomically.

    The file appears under its name only when it is complete and on disk; a failed or killed writer leaves an
    older file unchanged. Raises ArtifactError WIR701 if the folder is not writable.
    """
    with _writing(path) as temporary:
        _write_all(temporary, entries, about)
        _seal(temporary)


@contextlib.contextmanager
def _writing(path: str | os.PathLike[str]) -> Iterator[str]:
    """Wraps `replacing`; raises ArtifactError WIR701 instead of OSError."""
    try:
        with replacing(path) as temporary:
            yield temporary
    except OSError as error:
        reason = error.strerror or str(error)
        raise ArtifactError("WIR701", f"cannot write {os.fspath(path)!r}: {reason}") from error


def _write_all(path: str, entries: Iterable[Entry], about: Mapping[str, object]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        hashes: dict[str, str] = {}
        for entry in entries:
            _check_name(entry.name)
            hashes[entry.name] = _write_entry(archive, entry)
        manifest = json.dumps({**about, "entries": hashes}, sort_keys=True, indent=1).encode()
        _write_entry(archive, Entry(MANIFEST, (manifest,), len(manifest)))
        archive.comment = b"\0" * _SEAL_LENGTH


@contextlib.contextmanager
def _archive(data: memoryview) -> Iterator[zipfile.ZipFile]:
    """Opens the archive over mapped bytes; every fault of the zip structure becomes an ArtifactError."""
    try:
        with zipfile.ZipFile(_View(data), "r") as archive:
            yield archive
    except (
        zipfile.BadZipFile,
        struct.error,
        EOFError,
        ValueError,
        NotImplementedError,
        UnicodeError,
    ) as error:
        raise ArtifactError("WIR703", f"damaged container: {error}") from error


class _View:
    """A minimal seekable reader of a memoryview, so that only the directory is copied."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = 0

    def read(self, count: int = -1, /) -> bytes:
        end = len(self._data) if count < 0 else min(len(self._data), self._position + count)
        out = bytes(self._data[self._position : end])
        self._position = max(self._position, end)
        return out

    def seek(self, offset: int, whence: int = 0, /) -> int:
        base = (0, self._position, len(self._data))[whence]
        if base + offset < 0:
            raise ValueError("seek before the start")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        pass


def _payload(info: zipfile.ZipInfo, data: memoryview) -> tuple[int, int]:
    """Returns start and end of an entry's bytes in the file, by its local header."""
    start = info.header_offset
    if start < 0 or start + _LOCAL.size > len(data):
        raise ArtifactError("WIR703", f"entry {info.filename!r} is outside the file")
    fields = _LOCAL.unpack(data[start : start + _LOCAL.size])
    name_length, extra_length = fields[9], fields[10]
    name_start = start + _LOCAL.size
    begin = name_start + name_length + extra_length
    if (
        fields[0] != b"PK\x03\x04"
        or bytes(data[name_start : name_start + name_length]) != info.filename.encode()
    ):
        raise ArtifactError("WIR703", f"entry {info.filename!r} does not match its local header")
    if begin + info.file_size > len(data):
        raise ArtifactError("WIR703", f"entry {info.filename!r} is outside the file")
    return begin, begin + info.file_size


def _streamed_range(archive: zipfile.ZipFile, data: memoryview) -> tuple[int, int]:
    for info in archive.infolist():
        if info.filename == _STREAMED:
            return _payload(info, data)
    return (0, 0)


def _check_info(info: zipfile.ZipInfo) -> None:
    _check_name(info.filename)
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.is_dir() or kind not in (0, stat.S_IFREG):
        raise ArtifactError("WIR704", f"entry {info.filename!r} is a folder, link or special file")
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
        raise ArtifactError("WIR703", f"entry {info.filename!r} is compressed or encrypted")


def _read(path: str | os.PathLike[str], map_from: int) -> FileBytes:
    try:
        return read_bytes(path, map_from)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ArtifactError("WIR702", f"cannot read {os.fspath(path)!r}: {reason}") from error


def _check_seal(data: memoryview, archive: zipfile.ZipFile) -> None:
    comment = archive.comment
    seal, rest = comment[-_SEAL_LENGTH:], comment[:-_SEAL_LENGTH]
    is_known = seal.startswith(_SEAL) and (not rest or re.fullmatch(_SIGNATURE + rb"[0-9a-f]{128}", rest))
    if not is_known or bytes(data[len(data) - len(comment) :]) != comment:
        raise ArtifactError("WIR703", "the seal is missing", hint="the file is truncated or was repacked")
    if seal != _seal_digest(data, _streamed_range(archive, data)):
        raise ArtifactError("WIR703", "the seal does not match the content", hint="the file is damaged")


def _authenticate(data: memoryview, archive: zipfile.ZipFile, check: Authenticate) -> None:
    """Calls `check` with the hash of a sealed file's content and its signature."""
    content = _digest(data, _streamed_range(archive, data), len(data) - len(archive.comment))
    signature = archive.comment[:-_SEAL_LENGTH].removeprefix(_SIGNATURE)
    check(_SIGNED + content.digest(), bytes.fromhex(signature.decode()))


def _parse_manifest(raw: memoryview) -> dict[str, object]:
    try:
        manifest = json.loads(bytes(raw))
    except (ValueError, RecursionError) as error:
        raise ArtifactError("WIR703", f"the manifest cannot be read: {error}") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("entries"), dict):
        raise ArtifactError("WIR703", "the manifest has no entries")
    return manifest


def _read_entries(archive: zipfile.ZipFile, data: memoryview) -> dict[str, memoryview]:
    entries: dict[str, memoryview] = {}
    end = 0
    for info in sorted(archive.infolist(), key=lambda i: i.header_offset):
        _check_info(info)
        if info.filename in entries:
            raise ArtifactError("WIR705", f"entry {info.filename!r} appears twice")
        begin, finish = _payload(info, data)
        if info.header_offset < end:
            raise ArtifactError("WIR703", f"entry {info.filename!r} overlaps another")
        end = finish
        entries[info.filename] = data[begin:finish]
    return entries


def open_container(
    path: str | os.PathLike[str],
    *,
    check_streamed: bool = True,
    map_from: int = MAP_FROM,
    authenticate: Authenticate | None = None,
) -> Container:
    """Reads and checks a container: seal, signature, names, sizes, and the sha256 of every entry.

    With `check_streamed=False`, the payload of constants is not hashed, which shortens start-up. A file of
    `map_from` bytes or more is mapped. `authenticate` receives the signed message, which covers all bytes of
    the file if the payload is hashed; its exceptions propagate.

    Raises ArtifactError: WIR702 unreadable, WIR703 damaged, WIR704 unsafe names, WIR705 duplicate entries,
    WIR706 missing or extra entries, WIR713 written meanwhile.
    """
    return _checked(_read(path, map_from), check_streamed, authenticate)


def sign_container(
    path: str | os.PathLike[str], output: str | os.PathLike[str], sign: Callable[[bytes], bytes]
) -> None:
    """Writes a container with a signature, atomically.

    Raises the errors of `sign` and `open_container`, and ArtifactError WIR701 if the folder is not writable.
    """
    read = _read(path, MAP_FROM)
    _checked(read, True, None)
    data = read.data
    with _archive(data) as archive:
        end = len(data) - len(archive.comment)
        skip = _streamed_range(archive, data)
    length = struct.pack("<H", _SIGNATURE_LENGTH + _SEAL_LENGTH)  # of the comment: the last field before it
    content = _digest(data, skip, end - len(length))
    content.update(length)
    signature = _SIGNATURE + sign(_SIGNED + content.digest()).hex().encode()
    content.update(signature)
    with _writing(output) as temporary, open(temporary, "wb") as file:
        file.write(data[: end - len(length)])
        file.write(length + signature + _SEAL + content.hexdigest().encode())
        check_files(() if read.file is None else (read.file,))


def _checked(read: FileBytes, check_streamed: bool, authenticate: Authenticate | None) -> Container:
    data = read.data
    with _archive(data) as archive:
        _check_seal(data, archive)
        if authenticate is not None:
            _authenticate(data, archive, authenticate)
        entries = _read_entries(archive, data)
    if MANIFEST not in entries:
        raise ArtifactError("WIR706", "the manifest is missing")
    manifest = _parse_manifest(entries.pop(MANIFEST))
    listed = manifest["entries"]
    assert isinstance(listed, dict)  # checked in _parse_manifest
    if set(listed) != set(entries):
        differing = ", ".join(sorted(set(listed) ^ set(entries)))
        raise ArtifactError("WIR706", f"entries and manifest disagree: {differing}")
    for name, payload in entries.items():
        if name == _STREAMED and not check_streamed:
            continue
        if hashlib.sha256(payload).hexdigest() != listed[name]:
            raise ArtifactError("WIR703", f"entry {name!r} does not fit its hash", hint="the file is damaged")
    if read.file is not None and _STREAMED in entries:
        read.file.expect(entries[_STREAMED], str(listed[_STREAMED]))
        read.file.check()
    return Container(entries, manifest, read.file)
