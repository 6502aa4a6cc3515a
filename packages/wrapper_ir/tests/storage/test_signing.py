"""Signatures of files: the author's public key detects every change, another author, and a missing
signature."""

from __future__ import annotations

import builtins
import random
import shutil
import struct
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from packages.wrapper_ir.tests.storage.made_artifact import make_artifact

import wrapper_ir
import wrapper_ir.artifact.file.container as container_module
from wrapper_ir.artifact.file import LoadOptions
from wrapper_ir.artifact.file.container import Entry, write_container
from wrapper_ir.errors import ArtifactError
from wrapper_ir_tools.cli.main import main


def write_keys(folder: Path, name: str, password: bytes = b"") -> tuple[Path, Path]:
    """Writes a new private key and its public key; returns their paths."""
    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    return write_keys(tmp_path, "mine")


@pytest.fixture
def signed(tmp_path: Path, keys: tuple[Path, Path]) -> Path:
    path = tmp_path / "m.wir"
    wrapper_ir.save(make_artifact(), path)
    wrapper_ir.sign(path, keys[0])
    return path


def code_of(path: Path, public: Path | bytes | None) -> str:
    with pytest.raises(ArtifactError) as raised:
        wrapper_ir.load(path, public_key=public)
    return raised.value.code


def test_read_back(signed: Path, keys: tuple[Path, Path]) -> None:
    for read in (
        wrapper_ir.load(signed, public_key=keys[1]),
        wrapper_ir.load(signed, public_key=keys[1].read_bytes()),
        wrapper_ir.load(signed, LoadOptions(map_from=0), public_key=str(keys[1])),
        wrapper_ir.load(signed),
    ):
        assert read.program == make_artifact().program
    with zipfile.ZipFile(signed) as archive:  # other tools read it as before
        assert archive.testzip() is None


def test_missing_and_other_keys(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    _, other = write_keys(tmp_path, "other")
    assert code_of(signed, other) == "WIR715"
    wrapper_ir.save(wrapper_ir.load(signed), signed)  # a new, unsigned file
    assert code_of(signed, keys[1]) == "WIR714"


def test_signed_again(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    once = signed.read_bytes()
    wrapper_ir.sign(signed, keys[0])
    assert signed.read_bytes() == once  # Ed25519 gives the same signature
    private, public = write_keys(tmp_path, "other")
    wrapper_ir.sign(signed, private, tmp_path / "theirs.wir")
    wrapper_ir.load(tmp_path / "theirs.wir", public_key=public)
    assert code_of(tmp_path / "theirs.wir", keys[1]) == "WIR715"
    assert signed.read_bytes() == once


def test_every_damaged_byte_is_refused_without_a_key(signed: Path, tmp_path: Path) -> None:
    """Detects a damaged signature, because the seal covers it."""
    data, bad, rng = signed.read_bytes(), tmp_path / "bad.wir", random.Random(3)
    comment = range(len(data) - 300, len(data))
    for at in [*comment, *(rng.randrange(len(data)) for _ in range(500))]:
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        bad.write_bytes(changed)
        assert code_of(bad, None).startswith("WIR7")


def seal_again(data: bytearray) -> bytes:
    """Refuses a file that an attacker changed and sealed again without the key."""
    with memoryview(data) as view, container_module._archive(view) as archive:
        skip = container_module._streamed_range(archive, view)
        seal = container_module._seal_digest(view, skip)
    return bytes(data[: -len(seal)]) + seal


def test_every_changed_byte_is_refused_though_it_is_sealed(
    signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    data, bad = signed.read_bytes(), tmp_path / "bad.wir"
    rng, refused = random.Random(4), 0
    for at in rng.sample(range(len(data) - container_module._SEAL_LENGTH), 1500):
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        try:
            resealed = seal_again(changed)
        except ArtifactError:  # no zip any more
            continue
        bad.write_bytes(resealed)
        assert code_of(bad, keys[1]) in ("WIR703", "WIR715")
        refused += 1
    assert refused > 1000


def test_constants_are_hashed_where_a_key_is_given(
    signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    """Hashes the constants' bytes even if the options skip that."""
    data = bytearray(signed.read_bytes())
    blob = bytes(make_artifact().constants["weight"].buffer)
    data[data.index(blob)] ^= 1
    bad = tmp_path / "bad.wir"
    bad.write_bytes(data)  # the seal leaves them to the manifest
    unchecked = LoadOptions(check_constants=False)
    wrapper_ir.load(bad, unchecked)
    with pytest.raises(ArtifactError, match="WIR703"):
        wrapper_ir.load(bad, unchecked, public_key=keys[1])


def test_another_files_signature(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.wir"
    wrapper_ir.save(make_artifact(seed=1), other)
    wrapper_ir.sign(other, keys[0])
    length = container_module._SIGNATURE_LENGTH
    at = -length - container_module._SEAL_LENGTH
    data, signature = bytearray(signed.read_bytes()), other.read_bytes()[at : at + length]
    data[at : at + length] = signature
    signed.write_bytes(seal_again(data))
    assert code_of(signed, keys[1]) == "WIR715"


def test_a_signature_that_is_taken_off(signed: Path, keys: tuple[Path, Path]) -> None:
    data = bytearray(signed.read_bytes())
    seal, signature = container_module._SEAL_LENGTH, container_module._SIGNATURE_LENGTH
    cut = data[: -seal - signature] + data[-seal:]
    struct.pack_into("<H", cut, len(cut) - seal - 2, seal)
    signed.write_bytes(seal_again(cut))
    wrapper_ir.load(signed)
    assert code_of(signed, keys[1]) == "WIR714"


def test_nothing_is_decoded_before_the_signature(keys: tuple[Path, Path], tmp_path: Path) -> None:
    """Reports the missing signature before an unsafe name and an empty manifest."""
    path = tmp_path / "m.wir"
    write_container(path, [Entry("program.json", (b"{",), 1)], {"format": "wir-artifact"})
    assert code_of(path, keys[1]) == "WIR714"


def test_damaged_files_are_not_signed(signed: Path, keys: tuple[Path, Path]) -> None:
    data = bytearray(signed.read_bytes())
    data[100] ^= 1
    signed.write_bytes(data)
    with pytest.raises(ArtifactError, match="WIR703"):
        wrapper_ir.sign(signed, keys[0])
    assert signed.read_bytes() == data


def test_keys_that_cannot_be_used(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    rsa = tmp_path / "rsa.pem"
    key = generate_private_key(65537, 2048)
    rsa.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    locked, _ = write_keys(tmp_path, "locked", b"secret")
    for private in (rsa, keys[1], tmp_path / "absent.pem", locked, b"no key"):
        with pytest.raises(ArtifactError) as raised:
            wrapper_ir.sign(signed, private)
        assert raised.value.code == "WIR716"
    for public in (keys[0], tmp_path / "absent.pem", b"no key"):
        assert code_of(signed, public) == "WIR716"
    with pytest.raises(ArtifactError, match="WIR716"):
        wrapper_ir.sign(signed, locked, password=b"wrong")
    wrapper_ir.sign(signed, locked, password=b"secret")


def test_without_the_library(signed: Path, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *args: object, **kwargs: object) -> ModuleType:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return original(name, *args, **kwargs)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(builtins, "__import__", without)
    wrapper_ir.load(signed)
    assert code_of(signed, keys[1]) == "WIR717"
    with pytest.raises(ArtifactError, match=r"wrapper-ir-tools\[sign\]"):
        wrapper_ir.sign(signed, keys[0])


def test_commands(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    def wir(*args: object, text: str = "") -> tuple[int, str]:
        result = CliRunner().invoke(main, [str(a) for a in args], input=text)
        return result.exit_code, result.output

    plain = tmp_path / "plain.wir"
    wrapper_ir.save(make_artifact(), plain)
    status, output = wir("verify", plain, "--public-key", keys[1])
    assert (status, "WIR714" in output) == (2, True)
    assert wir("sign", plain, "--key", keys[0]) == (0, f"{plain}: signed\n")
    assert wir("verify", plain, "--public-key", keys[1])[0] in (0, 1)  # signed; the program is another matter
    locked, public = write_keys(tmp_path, "locked", b"secret")
    output_file = tmp_path / "theirs.wir"
    assert wir("sign", plain, "--key", locked, "--password", "-o", output_file, text="secret\n")[0] == 0
    for command in (
        ("verify", output_file),
        ("run", output_file),
        ("emit", output_file, "--to", "python", "-o", tmp_path / "out"),
        ("compile", output_file, "-o", tmp_path / "out.wir"),
        ("tune", output_file, "-o", tmp_path / "out.wir"),
        *(
            (name, output_file)
            for name in (
                *("step", "hunt", "compare", "profile", "view", "explain", "memory"),
                *("print", "lower", "stats"),
            )
        ),
        ("replay", output_file, "--ops", "0", "-o", tmp_path / "out.wir"),
        ("minify", output_file, "--nan"),
        *(
            (name, plain, output_file) for name in ("compare", "view", "diff")
        ),  # which is signed with this key, and not the second
        ("diff", output_file, plain),
        ("opt", output_file, "--pass", "derive-frees"),
        ("opt", output_file, "--pass", "derive-frees", "-o", tmp_path / "out.wir"),
        ("minify", plain, "--compare", output_file),
    ):
        status, output = wir(*command, "--public-key", keys[1])
        assert (status, "WIR715" in output) == (2, True), (command, output)
    assert not (tmp_path / "out.wir").exists()
    for name in ("verify", "explain", "memory", "print", "lower", "stats", "opt"):
        assert wir(name, output_file, "--public-key", public)[1].count("WIR7") == 0
    assert wir("diff", output_file, output_file, "--public-key", public)[0] == 0
    text = tmp_path / "plain.txt"
    text.write_text("wir 0.5\n")
    for name in ("memory", "print", "lower", "stats", "opt"):  # text has no signature
        assert "WIR7" in wir(name, text, "--public-key", public)[1]
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
