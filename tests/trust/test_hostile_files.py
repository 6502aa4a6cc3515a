"""Malicious files for readers: each raises an error with a code, quickly, and nothing else."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cpp_wrapper
import fx_converter
import wrapper_ir
from cpp_wrapper import CppError
from fx_converter import FxOptions
from tests.cpp.cpp_case import FAST
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.artifact.file.container import Entry, open_container, write_container
from wrapper_ir.artifact.file.safetensors import read_names, read_safetensors, read_shapes
from wrapper_ir.errors import WirError, code_of
from wrapper_ir_tools.cli.main import main

TEXT = """
wir 0.5
target cpu

symbol s0 : int backed

extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"

const %c : f32[4]

func @main(%x: f32[s0, 4]) {
  define s0 = size(%x, 0)
  %y = call aten::add.Tensor(%x, %c) : f32[s0, 4]
  return %y
}
"""
# Any in this file: JSON
NEST = "[" * 200_000
HUGE = 10**4000


def artifact() -> Artifact:
    """A program with a symbol and a constant."""
    from wrapper_ir.artifact import TensorData

    program = wrapper_ir.parse_program(TEXT)
    data = TensorData(ir.DType.F32, memoryview(struct.pack("<4f", 1, 2, 3, 4)))
    constants = tuple(dataclasses.replace(c, data_hash=data.sha256()) for c in program.constants)
    return bare_artifact(dataclasses.replace(program, constants=constants), {"c": data})


def changed(folder: Path, entries: dict[str, bytes]) -> Path:
    """A sealed file whose entries are others."""
    good, bad = folder / "good.wir", folder / "bad.wir"
    if not good.exists():
        wrapper_ir.save(artifact(), good)
    found = open_container(good)
    all_entries = {**{name: bytes(data) for name, data in found.entries.items()}, **entries}
    about = {name: held for name, held in found.manifest.items() if name != "entries"}
    write_container(bad, [Entry(n, (d,), len(d)) for n, d in all_entries.items()], about)
    return bad


def refused(read: Callable[[], object], seconds: float = 5.0) -> str:
    """The code of the error that comes, soon."""
    begin = time.perf_counter()
    with pytest.raises((WirError, CppError)) as raised:
        read()
    assert time.perf_counter() - begin < seconds
    assert len(str(raised.value)) < 4000
    code: str = vars(raised.value)["code"]
    return code


def header(tensors: object, payload: bytes = b"") -> bytes:
    """An entry in the format of safetensors."""
    text = tensors if isinstance(tensors, bytes) else json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text + payload


def huge_shape(count: int = 3000) -> bytes:
    number = str(HUGE)
    shape = ",".join([number] * count)
    text = f'{{"c":{{"dtype":"F32","shape":[{shape}],"data_offsets":[0,16]}}}}'.encode()
    return len(text).to_bytes(8, "little") + text + bytes(16)


def entry_of(**changes: Any) -> bytes:
    said = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16], **changes}
    return header({"c": said}, bytes(16))


HEADERS = {
    "huge numbers": huge_shape(),
    "huge numbers of digits": huge_shape(1).replace(str(HUGE).encode(), b"9" * 4000),
    "many sizes": entry_of(shape=[1] * 100_000),
    "nested": header(b'{"c":' + NEST.encode()),
    "metadata is a list": header({"__metadata__": [], "c": []}),
    "list": header([]),
    "offsets": entry_of(data_offsets=[HUGE, HUGE + 16]),
    "negative": entry_of(shape=[-2, -2]),
    "float sizes": entry_of(shape=[4.0]),
    "truths": entry_of(shape=[True, 4]),
    "no header": b"\xff" * 8,
    "empty": b"",
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_of_constants(name: str, tmp_path: Path) -> None:
    data = HEADERS[name]
    assert refused(lambda: read_safetensors(memoryview(data), {"c": ir.DType.F32})) == "WIR707"
    for read in (read_names, read_shapes):
        try:
            read(memoryview(data))
        except WirError as error:
            assert error.code == "WIR707"
    assert refused(lambda: wrapper_ir.load(changed(tmp_path, {"constants.safetensors": data}))) == "WIR707"


JSONS = {
    "nested": NEST,
    "list": "[]",
    "number": "1",
    "null": "null",
    "digits": "9" * 5000,
    "text": '"x"',
    "object": "{}",
    "empty": "",
    "surrogate": '{"\\ud800": "\\ud800"}',
}
ENTRIES = ["program.json", "signature.json", "tuning.json", "metadata.json", "binaries.json"]


@pytest.mark.parametrize("name", JSONS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_entries_of_other_json(entry: str, name: str, tmp_path: Path) -> None:
    path = changed(tmp_path, {entry: JSONS[name].encode()})
    try:
        wrapper_ir.load(path)
    except WirError as error:
        assert error.code.startswith("WIR7")


NOTES = ["capture", "inputs", "function", "facts"]
LOOKS = [
    ("print",), ("verify",), ("stats",), ("memory",), ("explain",), ("diff",), ("lower",),
    ("run",), ("step", "--batch"), ("compare", "--with", "eager"), ("replay",),
]  # fmt: skip


def extension_names() -> list[str]:
    """Returns the extensions that our packages read."""
    from wrapper_ir.artifact import choices, group_ranks, sources

    found = [held for module in (choices, group_ranks, sources) for held in vars(module).values()]
    names = [x for x in found if isinstance(x, str) and x.endswith(".json")]
    return sorted({*names, "fx_graph.json"})


@pytest.mark.slow
@pytest.mark.parametrize("name", JSONS)
def test_extensions_and_metadata_of_other_json(name: str, tmp_path: Path) -> None:
    text = JSONS[name]
    extensions = {f"extensions/{each}": text.encode() for each in extension_names()}
    notes = json.dumps(dict.fromkeys(NOTES, text)).encode()
    path = str(changed(tmp_path, {**extensions, "metadata.json": notes}))
    for command in LOOKS:
        words = [command[0], path, *([path] if command[0] == "diff" else []), *command[1:]]
        done = CliRunner().invoke(main, words)
        assert not done.exception or isinstance(done.exception, SystemExit), (command, done.exception)
        if done.exit_code == 2:
            assert "[WIR" in done.output or "Usage" in done.output, (command, done.output[:500])


@pytest.mark.parametrize("name", JSONS)
def test_saved_graphs_of_other_json(name: str, tmp_path: Path) -> None:
    path = changed(tmp_path, {"extensions/fx_graph.json": JSONS[name].encode()})
    assert refused(lambda: fx_converter.load(path)) == "FX202"


# --- operators of expressions


def operators() -> list[tuple[str, int]]:
    from wrapper_ir.expr import OPERATORS

    return [(op.name, op.arity) for op in OPERATORS.rows]


@pytest.mark.parametrize(("tag", "arity"), operators())
def test_operands_of_expressions(tag: str, arity: int) -> None:
    program = json.loads(wrapper_ir.to_json(artifact().program))
    text = json.dumps(program)
    assert '"s0"' in text
    (sizes,) = [t["sizes"] for t in program["types"] if "s0" in t.get("sizes", [])][:1]
    for count in range(5):
        if count == arity or (arity == 0 and count >= 2):
            continue
        sizes[0] = [tag, *(["s0"] * count)]
        assert refused(lambda: wrapper_ir.from_json(json.dumps(program))) == "WIR521"


@pytest.mark.parametrize("rank", [300, 1600, 100_000])
def test_tensors_of_many_dimensions(rank: int) -> None:
    text = TEXT.replace("f32[s0, 4]", f"f32[{', '.join(['s0'] * rank)}]")
    assert refused(lambda: wrapper_ir.parse_program(text)) == "WIR553"
    program = json.loads(wrapper_ir.to_json(artifact().program))
    for one in program["types"]:
        if "sizes" in one:
            one["sizes"] = one["strides"] = [1] * rank
    assert refused(lambda: wrapper_ir.from_json(json.dumps(program))) == "WIR553"


# --- what is no file


@pytest.mark.parametrize("suffix", [".wir", ".json", ".txt", ".so", ".pt2", ".pem"])
def test_pipes_and_devices(suffix: str, tmp_path: Path) -> None:
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    reads: list[Callable[[str], object]] = [wrapper_ir.load, fx_converter.load]
    if suffix in (".so", ".pt2"):
        reads = [cpp_wrapper.load, cpp_wrapper.metadata]
    for read in reads:
        for path in (pipe, Path("/dev/zero"), Path("/dev/tty"), tmp_path):
            refused(lambda read=read, path=path: read(str(path) if reads[0] is wrapper_ir.load else path))  # type: ignore[misc]
    for command in ("print", "verify", "run", "explain", "memory"):
        done = CliRunner().invoke(main, [command, str(pipe)])
        assert done.exit_code == 2
        assert "WIR702" in done.output
    wrapper_ir.save(artifact(), tmp_path / "m.wir")
    pytest.importorskip("cryptography")
    assert refused(lambda: wrapper_ir.load(tmp_path / "m.wir", public_key=pipe)) == "WIR716"


# --- structure-aware fuzz

_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 70), st.just(2**63), st.just(HUGE), st.floats(),
    st.sampled_from(["", "s0", "x", "c", "add", "main", "f32", "\ud800", "\x1b[2J", "a" * 5000]),
)  # fmt: skip
_JSON = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["op", "name", "type", "float", "value", "list"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything in a document."""
    found = [path] if path else []
    items = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


def mutated(document: Any, seed: int, new: Any) -> Any:
    """A document with a part replaced, removed, or doubled."""
    made = json.loads(json.dumps(document))
    choose = random.Random(seed)
    *way, last = choose.choice(places(made))
    holder = made
    for step in way:
        holder = holder[step]
    match choose.randrange(4):
        case 0:
            del holder[last]
        case 1 if isinstance(holder, list):
            holder.insert(last, holder[last])
        case 2 if isinstance(holder[last], list):
            holder[last] = holder[last][:-1]
        case _:
            holder[last] = new
    return made


def only_codes(read: Callable[[], object]) -> None:
    """Runs; an error without a code fails."""
    try:
        read()
    except Exception as error:
        assert isinstance(error, CppError) or code_of(error), f"{type(error).__name__}: {error}"
        str(error).encode(errors="backslashreplace")


def use(program: wrapper_ir.Program) -> None:
    """Reads a program in each way."""
    wrapper_ir.print_program(program)
    wrapper_ir.verify(program)


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30), new=_JSON)
def test_changed_programs(seed: int, new: Any) -> None:
    document = json.loads(wrapper_ir.to_json(artifact().program))
    only_codes(lambda: use(wrapper_ir.from_json(json.dumps(mutated(document, seed, new)))))


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30), new=_JSON)
def test_changed_headers_of_constants(seed: int, new: Any) -> None:
    document = {
        "__metadata__": {"format": "wir"},
        "c": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
    }
    data = memoryview(header(mutated(document, seed, new), bytes(16)))
    for read in (lambda: read_safetensors(data, {"c": ir.DType.F32}), lambda: read_shapes(data)):
        only_codes(read)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.slow
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30), new=_JSON, entry=st.sampled_from(ENTRIES[:4]))
def test_changed_entries(folder: Path, seed: int, new: Any, entry: str) -> None:
    good = changed(folder, {})
    document = json.loads(bytes(open_container(good).entries[entry]) or b"{}") or {"a": "b"}
    path = changed(folder, {entry: json.dumps(mutated(document, seed, new)).encode()})

    def read() -> None:
        made = wrapper_ir.load(path)
        use(made.program)

    only_codes(read)


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 30), new=_JSON)
def test_changed_graphs(folder: Path, seed: int, new: Any) -> None:
    path = folder / "graph.wir"
    if not path.exists():
        fx_converter.save(fx_converter.convert(artifact()), path)
    made = wrapper_ir.load(path)
    graph = mutated(json.loads(made.extensions["fx_graph.json"]), seed, new)
    other = folder / "other.wir"
    text = json.dumps(graph).encode(errors="replace").decode()
    wrapper_ir.save(dataclasses.replace(made, extensions={"fx_graph.json": text}), other)
    only_codes(lambda: fx_converter.load(other, FxOptions()))


@pytest.mark.slow
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    at=st.integers(0, 1 << 30),
    byte=st.integers(0, 255),
    cut=st.integers(0, 1 << 30),
    suffix=st.sampled_from([".so", ".pt2"]),
)
def test_changed_libraries(folder: Path, at: int, byte: int, cut: int, suffix: str) -> None:
    good = folder / f"good{suffix}"
    if not good.exists():
        cpp_wrapper.build(artifact(), good, FAST)
    data = bytearray(good.read_bytes())
    data[-1 - at % len(data)] = byte
    path = folder / f"bad{suffix}"
    path.write_bytes(data[: len(data) - cut % 3 * (cut % len(data))])
    only_codes(lambda: cpp_wrapper.load(path))
