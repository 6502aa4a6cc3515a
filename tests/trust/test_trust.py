"""A hostile artifact: commands that run its code, and commands that never do.

Its kernels, names, texts and entries leave a file behind if they are executed. `docs/trust.md` states the
guarantees.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import fx_converter
import py_wrapper
import wrapper_ir
from fx_converter import FxOptions
from py_wrapper import PyOptions
from py_wrapper.machine import TORCH_MACHINE
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.artifact.file.container import Entry, write_container
from wrapper_ir.errors import WirError
from wrapper_ir.operators.policy import REACH
from wrapper_ir_runtime.interp import Interpreter
from wrapper_ir_tools.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


class Bomb:
    """A pickle of this leaves a file behind when it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.marker), "w")


def cpp_source(marker: Path) -> str:
    return f"""
#include <cstdio>
struct Left {{ Left() {{ if (FILE* f = fopen("{marker}", "w")) fclose(f); }} }};
static Left left;
extern "C" void evil(const float* x, float* out) {{ for (int i = 0; i < 4; i++) out[i] = x[i]; }}
"""


def triton_source(marker: Path) -> str:
    return f"""
import triton
import triton.language as tl
open({str(marker)!r}, "w").close()

@triton.jit
def evil(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)
"""


CPP = 'kernel cpp @k entry "evil" (read f32* x, write f32* out) {{{%s}}}\n'
TRITON = """
kernel triton @k entry "evil" (read f32* x, write f32* out, i32 n)
  order(x, out, n, BLOCK)
  configs({BLOCK = 4} warps(4) stages(1))
  grid(ceildiv(n, BLOCK))
  {{{%s}}}
"""
MAIN = """
func @main(%x: f32[4]) {
  comment "TEXT"
  assert 4 >= 1 "TEXT"
  %t = call_subgraph @"NAME" (%x) : f32[4]
  return %t
}

func @"NAME"(%"VALUE": f32[4]) {
  %out = alloc f32[4]
  launch @k(%"VALUE", %out)  #1
  return %out
}

provenance
  #1 nodes("TEXT") ops("TEXT") at("TEXT:1")
"""


def code(marker: Path) -> str:
    """Python that leaves `marker`, out of any quotes that it may land in."""
    return (
        f"\\\"\\\"\\\"\\n'''\\nopen('{marker}', 'w')\\n'''\\\"\\\"\\\" + open('{marker}', 'w').read() + {{}}"
    )


def hostile(kind: str, marker: Path) -> Artifact:
    """The artifact; `kind` selects its kernel."""
    kernel, source, launch = {
        "cpp": (CPP, cpp_source, 'launch @k(%"VALUE", %out)'),
        "triton": (TRITON, triton_source, 'launch @k(%"VALUE", %out, 4)'),
    }[kind]
    main = MAIN.replace('launch @k(%"VALUE", %out)', launch)
    for word in ("TEXT", "NAME", "VALUE"):
        main = main.replace(word, code(marker))
    text = f"wir 0.5\ntarget cpu\n\n{kernel % source(marker)}\n{main}"
    made = bare_artifact(wrapper_ir.parse_program(text))
    bomb = pickle.dumps(Bomb(marker), protocol=0).decode()
    return dataclasses.replace(
        made,
        metadata={"model": bomb, code(marker): "x"},
        tuning={"k": bomb},
        extensions={"fx_graph.json": bomb, "data.pkl": bomb, "conftest.py": f"open({str(marker)!r}, 'w')"},
    )


@pytest.fixture(params=["cpp", "triton"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "triton":
        pytest.importorskip("triton")
    return str(request.param)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


def store(path: Path, artifact: Artifact, marker: Path) -> None:
    """The file, with entries beyond an artifact's own, as an attacker packs and seals it."""
    wrapper_ir.save(artifact, path)
    bomb = pickle.dumps(Bomb(marker))
    with zipfile.ZipFile(path) as archive:
        files = {info.filename: archive.read(info) for info in archive.infolist()}
    about = json.loads(files.pop("manifest.json"))
    del about["entries"]
    files |= {"__main__.py": f"open({str(marker)!r}, 'w')".encode(), "archive/data.pkl": bomb}
    write_container(path, [Entry(n, (d,), len(d)) for n, d in files.items()], about)


def test_the_page_says_it_of_every_command() -> None:
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    told = page.partition("## What runs")[2].partition("\n## ")[0]
    assert [name for name in main.commands if not re.search(rf"\b{name}\b", told)] == []


def test_the_page_names_every_operator_with_reach() -> None:
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    assert [name for name in REACH if name != "_test::*" and f"`{name}`" not in page] == []


# --- what never runs code

NEVER = """
import os, sys
from click.testing import CliRunner

FORBIDDEN = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pickle.find_class",
             "socket.connect", "ctypes.dlopen", "ctypes.dlsym"}
seen = []
def hook(event, args):
    if event in FORBIDDEN and args and args[0] is not None and event != "ctypes.dlsym":
        seen.append((event, repr(args)))
    elif event == "open" and isinstance(args[0], str) and args[1] and set(args[1]) & set("wax+"):
        if not os.path.abspath(args[0]).startswith(os.getcwd()):
            seen.append((event, repr(args)))
sys.addaudithook(hook)

import wrapper_ir
from wrapper_ir_tools.cli.main import main
from wrapper_ir_passes import describe_passes

def wir(*args):
    done = CliRunner().invoke(main, args)
    if done.exit_code not in (0, 1):
        raise SystemExit(f"{args}: {done.output} {done.exception}")
    assert not os.path.exists("marker"), args

passes = [line.split()[0] for line in describe_passes().splitlines() if line[:1].isalpha()]
assert passes
wir("print", "m.wir")
wir("print", "m.wir", "--json", "--head", "10")
wir("print", "m.wir", "--no-kernels")
wir("verify", "m.wir")
wir("stats", "m.wir")
wir("memory", "m.wir")
wir("diff", "m.wir", "m.wir")
wir("opt", "m.wir", "--pass", "derive-frees", "-o", "out.wir")
wir("opt", "m.wir", "--pass", "derive-frees", "-o", "out.txt")
wir("opt", "--list", "m.wir")
wir("sign", "m.wir", "--key", "key.pem", "-o", "signed.wir")
artifact = wrapper_ir.load("m.wir")
program = artifact.program
text = wrapper_ir.print_program(program)
assert wrapper_ir.parse_program(text) == program
assert wrapper_ir.from_json(wrapper_ir.to_json(program)) == program
wrapper_ir.check(artifact)
wrapper_ir.save(artifact, "again.wir")
assert wrapper_ir.load("again.wir", wrapper_ir.artifact.file.LoadOptions(map_from=0)).program == program
assert not os.path.exists("marker")
assert not seen, seen
assert not {"torch", "triton", "pickle_bomb", "left_behind"} & set(sys.modules)
print("quiet")
"""


def environment(folder: Path) -> dict[str, str]:
    """With a module on the path that leaves the marker when it is imported."""
    (folder / "left_behind.py").write_text(
        f"open({str(folder / 'marker')!r}, 'w').close()\nclass Thing: pass\n", encoding="utf-8"
    )
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def test_looking_at_an_artifact_runs_nothing(tmp_path: Path, marker: Path, kind: str) -> None:
    made = hostile(kind, marker)
    spec = ir.TreeSpec(kind=ir.TreeKind.DATACLASS, type_name="left_behind:Thing")
    outputs = ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=(*made.signature.outputs.children, spec))
    made = dataclasses.replace(made, signature=dataclasses.replace(made.signature, outputs=outputs))
    store(tmp_path / "m.wir", made, marker)
    key = Ed25519PrivateKey.generate()
    (tmp_path / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    done = subprocess.run(
        [sys.executable, "-c", NEVER], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.stdout == "quiet\n", done.stdout + done.stderr
    assert not marker.exists()


def test_emitted_text_is_only_written(tmp_path: Path, marker: Path, kind: str) -> None:
    made = hostile(kind, marker)
    text = str(py_wrapper.emit(made))
    py_wrapper.write(made, tmp_path / "folder")
    compile(text, "emitted", "exec")
    assert not marker.exists()


# --- what does


def test_running_a_kernel_runs_its_source(marker: Path, kind: str, tmp_path: Path) -> None:
    """The payload works: running an artifact executes it, as `docs/trust.md` states."""
    made = hostile(kind, marker)
    x = torch.arange(4.0)

    def interpreted() -> object:
        return Interpreter(made, TORCH_MACHINE)(x)

    def emitted() -> object:
        return py_wrapper.compile(made, PyOptions(cache_folder=tmp_path / "cache"))

    def converted() -> object:
        return fx_converter.convert(made, FxOptions())

    for run in (interpreted, emitted, converted):
        marker.unlink(missing_ok=True)
        run()
        assert marker.exists() or kind == "cpp"  # a library is loaded once in a process
    marker.unlink(missing_ok=True)


# Each runs in a copy of one process that has loaded torch, which is most of the cost.
RUN = """
import os, sys, torch
from pathlib import Path
from wrapper_ir_tools.cli.main import main

marker, found = Path(sys.argv[1]), []
for engine in ("interpreter", "python", "fx"):
    marker.unlink(missing_ok=True)
    if (child := os.fork()) == 0:
        main(["run", "m.wir", "--with", engine])
    _, status = os.waitpid(child, 0)
    found.append(f"{engine} {status} {marker.exists()}")
print(*found, sep=", ")
"""


@pytest.mark.slow
def test_loading_a_kernel_in_a_new_process_runs_it(tmp_path: Path, marker: Path, kind: str) -> None:
    store(tmp_path / "m.wir", hostile(kind, marker), marker)
    marker.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(marker)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1:] == ["interpreter 0 True, python 0 True, fx 0 True"], (
        done.stdout + done.stderr
    )


def test_names_and_texts_never_become_code(marker: Path, tmp_path: Path) -> None:
    """The same program without its kernel's payload runs, and leaves nothing."""
    made = hostile("cpp", marker)
    [kernel] = made.program.kernels
    harmless = re.sub(r"struct Left.*\nstatic Left left;\n", "", ir.source_of(kernel))
    program = dataclasses.replace(made.program, kernels=(ir.with_source(kernel, harmless),))
    made = dataclasses.replace(made, program=program)
    x = torch.arange(4.0)
    for results in (
        Interpreter(made, TORCH_MACHINE)(x),
        py_wrapper.compile(made, PyOptions(cache_folder=tmp_path / "cache"))(x),
        fx_converter.compile(made)(x),
        fx_converter.convert(made, FxOptions(kernel_calls="hop"))(x),
    ):
        assert results[0].equal(x)
    assert not marker.exists()


@pytest.mark.slow
def test_classes_of_a_signature_are_imported_by_what_runs(tmp_path: Path, marker: Path) -> None:
    """By name, from the installed packages: compiling an artifact imports them, loading it does not."""
    text = "wir 0.5\ntarget cpu\n\nfunc @main(%x: f32[4]) {\n  return %x\n}\n"
    made = bare_artifact(wrapper_ir.parse_program(text))
    inputs = made.signature.inputs
    thing = ir.TreeSpec(
        kind=ir.TreeKind.DATACLASS,
        type_name="left_behind:Thing",
        keys=("x",),
        children=inputs.children[0].children,
    )
    arguments = dataclasses.replace(inputs.children[0], children=(thing,))
    signature = dataclasses.replace(
        made.signature, inputs=dataclasses.replace(inputs, children=(arguments, inputs.children[1]))
    )
    wrapper_ir.save(dataclasses.replace(made, signature=signature), tmp_path / "m.wir")
    script = (
        "import os, wrapper_ir, py_wrapper\n"
        "art = wrapper_ir.load('m.wir')\n"
        "wrapper_ir.check(art)\n"
        "assert not os.path.exists('marker')\n"
        "try:\n    py_wrapper.compile(art)\nexcept wrapper_ir.errors.WirError as error:\n    print(error.code)\n"
        "assert os.path.exists('marker')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


# --- files that are not what they say


def variants(data: bytes) -> Iterator[tuple[str, bytes]]:
    """A whole file, packed with entries that affect other readers."""
    end = data.rindex(b"PK\x05\x06")
    yield "another directory behind it", data + data[end:]
    yield "a program before it", b"#!/bin/sh\ntouch marker\n" + data
    yield "another archive before it", data + data
    yield "a tail", data + b"\0" * 64
    yield "a pickle", pickle.dumps({"a": 1})
    yield "a comment with a directory", data[:end] + data[end : end + 20] + b"\xff\xff" + data[end:]


def test_files_that_other_readers_read_otherwise(tmp_path: Path, marker: Path) -> None:
    path, bad = tmp_path / "m.wir", tmp_path / "bad.wir"
    wrapper_ir.save(hostile("cpp", marker), path)
    for what, data in variants(path.read_bytes()):
        bad.write_bytes(data)
        with pytest.raises(WirError) as raised:
            wrapper_ir.load(bad)
        assert raised.value.code.startswith("WIR7"), what
    assert not marker.exists()


@pytest.mark.parametrize("name", ["../m.wir", "/m.wir", "..", "a b", "x/y", "a\\b", ""])
def test_names_of_extensions_stay_inside(tmp_path: Path, marker: Path, name: str) -> None:
    made = dataclasses.replace(hostile("cpp", marker), extensions={name: "x"})
    with pytest.raises(WirError, match="WIR704"):
        wrapper_ir.save(made, tmp_path / "m.wir")
