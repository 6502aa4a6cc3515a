"""Artifacts for tests of files."""

from __future__ import annotations

import hashlib
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, TensorData
from wrapper_ir.artifact.file.container import Entry, write_container
from wrapper_ir.builder import ProgramBuilder, tensor_type

LEAF = ir.TreeSpec(kind=ir.TreeKind.LEAF)


def make_artifact(seed: int = 0) -> Artifact:
    """Returns a program with a kernel and two constants, one of an element type that safetensors lacks."""
    rng = random.Random(seed)
    blobs = {"weight": bytes(rng.randbytes(32)), "phase": bytes(rng.randbytes(24))}
    types = {"weight": tensor_type(ir.DType.F32, [8]), "phase": tensor_type(ir.DType.C64, [3])}
    pointer = ir.ParamKind.POINTER
    kernel = ir.CppKernel(
        name="k",
        params=(
            ir.KernelParam(name="a", kind=pointer, dtype=ir.DType.F32, access=ir.Access.READ),
            ir.KernelParam(name="b", kind=pointer, dtype=ir.DType.F32, access=ir.Access.WRITE),
        ),
        source='extern "C" void kernel(const float* a, float* b) { /* {{{ ü }}} */ b[0] = a[0]; }\n',
        entry="kernel",
    )
    builder = ProgramBuilder()
    values = {
        name: builder.constant(
            ir.Constant(value=ir.Value(name, types[name]), data_hash=hashlib.sha256(blob).hexdigest())
        )
        for name, blob in blobs.items()
    }
    main = builder.function("main")
    y = main.alloc("y", tensor_type(ir.DType.F32, [8]))
    main.launch(kernel, (values["weight"], y))
    main.ret((y,))
    signature = ir.Signature(
        inputs=ir.TreeSpec(
            kind=ir.TreeKind.TUPLE,
            children=(ir.TreeSpec(kind=ir.TreeKind.TUPLE), ir.TreeSpec(kind=ir.TreeKind.DICT)),
        ),
        params=(),
        outputs=LEAF,
        bindings=(ir.ResultOutput(index=0),),
    )
    return Artifact(
        program=builder.finish(),
        signature=signature,
        constants={n: TensorData(types[n].dtype, memoryview(b)) for n, b in blobs.items()},
        tuning={"k": "{}"},
        metadata={"model": "é"},
    )


def flip(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def cut(data: bytes, rng: random.Random) -> bytes:
    begin = rng.randrange(len(data))
    return data[:begin] + data[begin + rng.randrange(1, 64) :]


def grow(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randrange(1, 64)) + data[at:]


def swap(data: bytes, rng: random.Random) -> bytes:
    a, b = sorted(rng.sample(range(len(data)), 2))
    size = min(16, b - a, len(data) - b)
    return data[:a] + data[b : b + size] + data[a + size : b] + data[a : a + size] + data[b + size :]


def repack(source: Path, target: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """Writes the entries after `change` and seals them again: damage that the seal cannot detect."""
    with zipfile.ZipFile(source) as archive:
        files = {i.filename: archive.read(i) for i in archive.infolist()}
    manifest = json.loads(files.pop("manifest.json"))
    change(files)
    about = {k: v for k, v in manifest.items() if k != "entries"}
    write_container(target, [Entry(n, (d,), len(d)) for n, d in files.items()], about)
