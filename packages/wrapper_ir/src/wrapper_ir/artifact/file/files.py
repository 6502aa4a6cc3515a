"""Layout of an artifact over the entries of a `.wir` file.

manifest.json            versions, and the sha256 of every entry
program.json             the program without sources of kernels
kernels/<name>.<ext>     one kernel's source each
signature.json           the calling convention
tuning.json              results of tuning by kernel hash
metadata.json            free-form facts
binaries.json            kernels compiled ahead of time and their launch parameters, if any
binaries/<key>.<kind>    images of these kernels
extensions/<name>        texts of other packages
constants.safetensors    the constants' bytes
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, TensorData, window_of
from wrapper_ir.artifact.file.binaries import (
    BINARIES_TABLE,
    binaries_from_json,
    binaries_to_json,
    binary_files,
)
from wrapper_ir.artifact.file.container import Container, Entry, open_container, write_container
from wrapper_ir.artifact.file.safetensors import read_safetensors, write_safetensors
from wrapper_ir.artifact.file.signing import Key, authentication
from wrapper_ir.errors import ArtifactError, WirError
from wrapper_ir.json import from_json, signature_from_json, signature_to_json, to_json
from wrapper_ir.support.files import MAP_FROM, check_files
from wrapper_ir.support.versions import ARTIFACT

FORMAT = "wir-artifact"
_MAX_JSON = 1 << 30
_EXTENSIONS = "extensions/"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Options of `load`.

    `check_constants` hashes the constants' bytes; disable it for a faster start. Files of `map_from` bytes or
    more are mapped and watched for changes, smaller ones are copied (0: all are mapped).
    """

    check_constants: bool = True
    map_from: int = MAP_FROM


def _source_name(kernel: ir.KernelDef, number: int) -> str:
    """Returns the entry of a kernel's source; '' if it has none.

    The number distinguishes names on case-insensitive file systems.
    """
    safe = "".join(c if c.isalnum() or c in "_-" else "_" for c in kernel.name)[:120]
    suffix = ir.source_suffix(kernel)
    return f"kernels/{number:04d}_{safe}{suffix}" if suffix else ""


def _package_version() -> str:
    try:
        return version("wrapper-ir")
    except PackageNotFoundError:  # running from a source tree that is not installed
        return "unknown"


def _text(name: str, text: str) -> Entry:
    data = text.encode()
    return Entry(name, (data,), len(data))


def _entries(artifact: Artifact) -> Iterator[Entry]:
    program = artifact.program
    bare = tuple(ir.with_source(kernel, "") for kernel in program.kernels)
    yield _text("program.json", to_json(dataclasses.replace(program, kernels=bare)))
    for number, kernel in enumerate(program.kernels):
        if name := _source_name(kernel, number):
            yield _text(name, ir.source_of(kernel))
    yield _text("signature.json", signature_to_json(artifact.signature))
    yield _text("tuning.json", json.dumps(dict(artifact.tuning), sort_keys=True))
    yield _text("metadata.json", json.dumps(dict(artifact.metadata), sort_keys=True))
    if artifact.binaries:
        for name, data in binary_files(artifact.binaries).items():
            yield Entry(name, (data,), len(data))
        yield _text(BINARIES_TABLE, binaries_to_json(artifact.binaries))
    for name, text in sorted(artifact.extensions.items()):
        yield _text(f"{_EXTENSIONS}{_checked(name)}", text)
    size, chunks = write_safetensors(artifact.constants)
    yield Entry("constants.safetensors", chunks, size)


def _checked(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}", name):
        raise ArtifactError("WIR704", f"unsafe name {name!r} of an extension")
    return name


def save(artifact: Artifact, path: str | os.PathLike[str]) -> None:
    """Writes an artifact to `path`, atomically: an older file stays intact until the new one is complete.

    Raises ArtifactError:

    - WIR701 the file cannot be written
    - WIR704 the name of an extension is not a plain file name
    - WIR708 a constant's data is missing or does not match its hash
    - WIR711 a constant is packed for this machine
    - WIR712 a key of a compiled kernel is malformed or ambiguous
    - WIR713 a constant's mapped file was written since it was loaded
    """
    artifact.check_portable()
    check_files([data.file for data in artifact.constants.values() if data.file is not None])
    _check_constants(artifact.program, artifact.constants)
    about = {"format": FORMAT, "version": ARTIFACT.version, "wrapper_ir_version": _package_version()}
    write_container(path, _entries(artifact), about)


def _check_constants(program: ir.Program, constants: Mapping[str, TensorData]) -> None:
    stored = {c.data_name for c in program.constants if c.data_hash}
    if stored != set(constants):
        differing = ", ".join(sorted(stored ^ set(constants)))
        raise ArtifactError("WIR708", f"the program's constants and their data disagree: {differing}")
    for constant in program.constants:
        if not constant.data_hash:
            continue
        if window_of(constants[constant.data_name], constant).sha256() != constant.data_hash:
            raise ArtifactError(
                "WIR708", f"the bytes of constant %{constant.value.name} do not match their hash"
            )


def _check_version(manifest: Mapping[str, object]) -> None:
    if manifest.get("format") != FORMAT:
        raise ArtifactError("WIR709", "this is not a Wrapper IR artifact")
    version = manifest.get("version", manifest.get("schema_version"))  # the key up to version 0.1
    if version != ARTIFACT.version:
        raise ArtifactError("WIR709", f"another version: {ARTIFACT.refusal(str(version))}")


def _entry(container: Container, name: str) -> memoryview:
    data = container.entries.get(name)
    if data is None:
        raise ArtifactError("WIR706", f"entry {name!r} is missing")
    return data


def _read_text(container: Container, name: str) -> str:
    data = _entry(container, name)
    if len(data) > _MAX_JSON:
        raise ArtifactError("WIR710", f"entry {name!r} has {len(data)} bytes, more than {_MAX_JSON}")
    try:
        return bytes(data).decode()
    except UnicodeDecodeError as error:
        raise ArtifactError("WIR703", f"entry {name!r} is not UTF-8") from error


def _read_strings(container: Container, name: str) -> dict[str, str]:
    try:
        table = json.loads(_read_text(container, name))
    except (ValueError, RecursionError) as error:
        raise ArtifactError("WIR703", f"entry {name!r} cannot be read: {error}") from error
    if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
        raise ArtifactError("WIR703", f"entry {name!r} is not a table of strings")
    return table


def _read_program(container: Container) -> ir.Program:
    program = from_json(_read_text(container, "program.json"))
    kernels = []
    for number, kernel in enumerate(program.kernels):
        name = _source_name(kernel, number)
        kernels.append(ir.with_source(kernel, _read_text(container, name)) if name else kernel)
    return dataclasses.replace(program, kernels=tuple(kernels))


def load(
    path: str | os.PathLike[str], options: LoadOptions | None = None, *, public_key: Key | None = None
) -> Artifact:
    """Reads an artifact. The program is not verified: call `wrapper_ir.verify`.

    Constants of a file of `LoadOptions.map_from` bytes or more are views of the mapped file, otherwise
    copies. Replace a mapped file by renaming another one, as `save` does; never write it in place. With a
    `public_key` (a PEM file, or its bytes), the file must be signed with the corresponding private key, and
    all constants are hashed.

    Raises ArtifactError WIR702 to WIR710 and WIR713 if the file is unreadable, damaged, unsafe or of another
    version, and WIR714 to WIR717 if it is not signed with that key.
    """
    options = options or LoadOptions()
    if public_key is not None:
        options = dataclasses.replace(options, check_constants=True)
    container = open_container(
        path,
        check_streamed=options.check_constants,
        map_from=options.map_from,
        authenticate=None if public_key is None else authentication(public_key),
    )
    _check_version(container.manifest)
    try:
        program = _read_program(container)
        signature = signature_from_json(_read_text(container, "signature.json"))
        binaries = _read_binaries(container, program)
    except ArtifactError:
        raise
    except WirError as error:
        raise ArtifactError("WIR703", f"{os.fspath(path)!r}: {error.message}") from error
    constants = _read_constants(container, program)
    if options.check_constants:
        _check_constants(program, constants)
    return Artifact(
        program=program,
        signature=signature,
        constants=constants,
        tuning=_read_strings(container, "tuning.json"),
        metadata=_read_strings(container, "metadata.json"),
        binaries=binaries,
        extensions={
            name.removeprefix(_EXTENSIONS): _read_text(container, name)
            for name in container.entries
            if name.startswith(_EXTENSIONS)
        },
    )


def _read_constants(container: Container, program: ir.Program) -> dict[str, TensorData]:
    dtypes: dict[str, ir.DType] = {}
    for constant in program.constants:
        if constant.data_hash and ir.is_tensor(constant.value):
            dtypes[constant.data_name] = ir.DType.U8 if constant.storage else constant.value.type.dtype
    return read_safetensors(_entry(container, "constants.safetensors"), dtypes, container.file)


def _read_binaries(container: Container, program: ir.Program) -> tuple[ir.KernelBinary, ...]:
    if BINARIES_TABLE not in container.entries:
        return ()
    text = _read_text(container, BINARIES_TABLE)
    return binaries_from_json(text, lambda name: bytes(_entry(container, name)), program.kernels)
