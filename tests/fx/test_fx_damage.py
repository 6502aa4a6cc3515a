"""Failures around graphs: damaged files, missing runtimes, forbidden ops.

Only our errors are raised, and torch's tables are unchanged.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.py_case import FUNCTIONS, HEADER

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.compilers import refuse
from fx_converter.kernels import KernelCalls, targets
from tests.common.forms import both_forms
from tests.fx.damage import NAME, no_output, other_main, rewritten, tables, text_of
from tests.fx.recording import Recording
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import ArtifactError, PluginError, WirError
from wrapper_ir.plugins.protocols import KernelRuntime, LoadedKernel
from wrapper_ir.plugins.registry import kernel_runtime

MAIN = """
const %c : f32[4]

extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"

func @main(%x: f32[s0, 4], %go: bool[]) {
  define s0 = size(%x, 0)
  assert s0 <= 1024 "batch too large"
  %a = alloc f32[s0, 4]
  launch @double(%x, %a, 4*s0)
  launch @increment(%a)
  %b = cond %go then @then else @other (%a) : f32[s0, 4]
  free %a.s
  %d = call aten::add.Tensor(%b, %c, alpha=2.5) : f32[s0, 4]
  return %d, s0*2, none
}

func @then(%p: f32[s0, 4]) captures(s0) {
  %t = alloc f32[s0, 4]
  launch @double(%p, %t, 4*s0)
  return %t
}

func @other(%p: f32[s0, 4]) captures(s0) {
  %t = alloc f32[s0, 4]
  copy %t, %p
  return %t
}
"""


class Runtime:
    """Kernels in Python: the payload's first word names a function."""

    kind = "pytest-kernels"

    def load(self, kernel: ir.KernelDef, target: ir.Target) -> LoadedKernel:
        assert isinstance(kernel, ir.ForeignKernel)
        return FUNCTIONS[kernel.payload.split()[0]]

    def load_all(self, kernels: Any, target: ir.Target) -> dict[str, LoadedKernel]:
        return {k.name: self.load(k, target) for k in kernels}


def find_runtime(kind: str) -> KernelRuntime:
    return Runtime() if kind == Runtime.kind else kernel_runtime(kind)


def artifact(mark: str, main: str = MAIN) -> Artifact:
    """A program whose kernels no other test has: `mark` is a part of their content."""
    kernels = "".join(
        f'kernel foreign @{name} runtime "pytest-kernels" ({params}) {{{{{{\n{name} {mark}\n}}}}}}\n'
        for name, params in (
            ("double", "read f32* source, write f32* target, i64 count"),
            ("increment", "readwrite f32* x"),
        )
    )
    program = wrapper_ir.parse_program(HEADER + kernels + main)
    data = wrapper_ir.artifact.TensorData(wrapper_ir.ir.types.DType.F32, memoryview(bytes(16)))
    constants = tuple(dataclasses.replace(c, data_hash=data.sha256()) for c in program.constants)
    program = dataclasses.replace(program, constants=constants)
    return bare_artifact(program, {c.value.name: data for c in constants})


def options(form: KernelCalls, **more: Any) -> FxOptions:  # Any: fields of FxOptions
    return FxOptions(kernel_calls=form, **({"find_runtime": find_runtime} | more))


@pytest.fixture
def untouched() -> Iterator[None]:
    before = tables()
    yield
    assert tables() == before


# --- converting


@pytest.mark.usefixtures("untouched")
@both_forms
class TestRefused:
    """Programs with kernels before the faulty part."""

    def test_an_op_that_the_options_forbid(self, form: KernelCalls) -> None:
        with pytest.raises(WirError, match=r"(?s)FX106.*Switch.*%b = cond.*FxOptions.forbid") as caught:
            fx_converter.convert(artifact(f"forbid {form}"), options(form, forbid=[ir.Switch]))
        assert caught.value.code == "FX106"

    def test_an_op_of_a_called_function(self, form: KernelCalls) -> None:
        with pytest.raises(WirError, match=r"(?s)FX106.*copy %t, %p"):
            fx_converter.compile(
                artifact(f"inner {form}"), options(form, forbid={ir.Copy, ir.Launch} - {ir.Launch})
            )

    def test_an_op_that_the_compiler_does_not_take(self, form: KernelCalls) -> None:
        compiler = Recording()
        compiler.lowerings = {ir.Switch: refuse}
        with pytest.raises(WirError, match=r"(?s)FX106.*Switch"):
            fx_converter.compile(artifact(f"taken {form}"), options(form, compilers={"cpu": compiler}))
        assert compiler.seen == []

    def test_a_program_that_ends_badly(self, form: KernelCalls) -> None:
        broken = artifact(f"broken {form}", MAIN.replace("return %d, s0*2", "return %d, s1*2"))
        with pytest.raises(WirError, match=r"FX101"):
            fx_converter.convert(broken, options(form))

    def test_a_missing_runtime(self, form: KernelCalls) -> None:
        with pytest.raises(PluginError, match=r"(?s)WIR901.*pytest-kernels"):
            fx_converter.convert(artifact(f"none {form}"), options(form, find_runtime=kernel_runtime))


def test_what_is_forbidden_is_a_class_of_ops() -> None:
    with pytest.raises(WirError, match=r"FX103.*forbid.*Switch"):
        FxOptions(forbid=["Switch"])  # type: ignore[list-item]  # the point of the test
    allowed = fx_converter.convert(artifact("allowed"), options("direct", forbid=[ir.Copy, ir.Launch][:0]))
    assert allowed(torch.ones(2, 4), torch.tensor(True))[1] == 4


# --- files


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of operators, whose kernels no process has registered."""
    return stored("saved", tmp_path_factory.mktemp("saved") / "graph.wir")


def stored(mark: str, path: Path) -> Path:
    fx_converter.save(fx_converter.convert(artifact(mark), options("direct")), path)
    text = wrapper_ir.load(path).extensions[NAME]
    return rewritten(path, path, text.replace('"direct"', '"hop"'))


def run(path: Path) -> None:
    module = fx_converter.load(path, options("hop"))
    x = torch.ones(2, 4)
    torch.testing.assert_close(module(x, torch.tensor(True)), (x * 6, 4, None))


def test_the_file_is_good_before_it_is_damaged(tmp_path: Path) -> None:
    before = tables()
    run(stored("good", tmp_path / "graph.wir"))
    assert len(tables()[0] - before[0]) == 2


@pytest.mark.usefixtures("untouched")
class TestFiles:
    def test_a_missing_runtime(self, saved: Path) -> None:
        with pytest.raises(PluginError, match=r"(?s)WIR901.*pytest-kernels"):
            fx_converter.load(saved)

    def test_another_torch(self, saved: Path, tmp_path: Path) -> None:
        said = json.loads(text_of(saved)) | {"torch": "1.13"}
        path = rewritten(saved, tmp_path / "old.wir", json.dumps(said))
        with pytest.raises(WirError, match=r"FX203.*1\.13.*\n?.*check_torch"):
            fx_converter.load(path, options("hop"))

    def test_damage_behind_the_kernels(self, saved: Path, tmp_path: Path) -> None:
        """The last that is read: attributes and the number of the main graph."""
        for change in (_no_constant, _no_module, other_main, _other_form, no_output):
            said = json.loads(text_of(saved))
            change(said)
            path = rewritten(saved, tmp_path / "damaged.wir", json.dumps(said))
            with pytest.raises(WirError, match="FX202"):
                fx_converter.load(path, options("hop"))

    @pytest.mark.parametrize("seed", range(4))
    def test_bytes_of_the_archive(self, saved: Path, tmp_path: Path, seed: int) -> None:
        """Flipped, or cut off."""
        choose, whole, path = random.Random(seed), saved.read_bytes(), tmp_path / "graph.wir"
        for _ in range(40):
            damaged = bytearray(whole)
            damaged[choose.randrange(len(whole))] ^= 1 << choose.randrange(8)
            for data in (damaged, whole[: choose.randrange(len(whole))]):
                path.write_bytes(data)
                with pytest.raises(ArtifactError):
                    fx_converter.load(path, options("hop"))


def _nodes(said: Any, op: str) -> list[Any]:
    return [node for graph in said["graphs"] for node in graph["nodes"] if node["op"] == op]


def _no_constant(said: Any) -> None:
    said["graphs"][-1]["attributes"]["c"]["constant"] = "gone"


def _no_module(said: Any) -> None:
    said["graphs"][-1]["attributes"]["then"]["graph"] = 7


def _other_form(said: Any) -> None:
    kernels = [n for n in _nodes(said, "call_function") if "kernel" in n["target"]]
    kernels[-1]["target"]["form"] = "triton"


@pytest.mark.slow
@pytest.mark.parametrize("mutate", ["bytes", "structure"])
def test_random_damage_of_the_graph(
    mutate: str, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph that still reads may be another one, but then it is whole.

    Else nothing of it was entered anywhere.
    """
    entered: list[str] = []

    def register(kernel: ir.KernelDef, hash: str, *more: Any) -> Any:
        entered.append(hash)
        return torch.ops.aten.relu

    monkeypatch.setattr(targets, "registered_operator", register)
    text, refused = text_of(saved), 0
    for seed in range(250):
        choose = random.Random(seed)
        damaged = (
            flipped(text, choose) if mutate == "bytes" else json.dumps(changed(json.loads(text), choose))
        )
        path = rewritten(saved, tmp_path / "graph.wir", damaged)
        entered.clear()
        try:
            fx_converter.load(path, options("hop"))
        except WirError as error:
            refused += 1
            assert error.code in {"FX103", "FX202", "FX203", "FX204"}, error
            assert entered == [], seed
    assert refused > 120


def flipped(text: str, choose: random.Random) -> str:
    """Replaces one to three characters."""
    found = list(text)
    for _ in range(choose.randint(1, 3)):
        found[choose.randrange(len(found))] = chr(choose.randrange(32, 127))
    return "".join(found)


def changed(said: Any, choose: random.Random) -> Any:
    """Removes, repeats or replaces one part of the JSON, by another part or by something else."""
    places = [*_places(said)]
    holder, key = choose.choice(places)
    other, from_ = choose.choice(places)
    match choose.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, holder[key])
        case 2:
            holder[key] = json.loads(json.dumps(other[from_]))
        case _:
            holder[key] = choose.choice(
                [None, -1, 1 << 70, 0.5, "", "a b", [], {}, [[]], {"node": "x"}, True]
            )
    return said


def _places(said: Any) -> Iterator[tuple[Any, Any]]:
    items: list[tuple[Any, Any]] = [*(said.items() if isinstance(said, dict) else enumerate(said))]
    for key, held in items:
        yield said, key
        if isinstance(held, dict | list):
            yield from _places(held)


# --- names become source code


def _input(said: Any, name: str) -> None:
    _nodes(said, "placeholder")[-2]["target"] = name


def _flat_input(said: Any, name: str) -> None:
    said["convention"] = "flat"
    _input(said, name)


def _attribute(said: Any, name: str) -> None:
    (node,) = (n for n in said["graphs"][-1]["nodes"] if n["target"] == "c")
    said["graphs"][-1]["attributes"][name] = said["graphs"][-1]["attributes"]["c"]
    node["target"] = name


def _keyword(said: Any, name: str) -> None:
    _nodes(said, "call_function")[0]["kwargs"][name] = 1


def _node(said: Any, name: str) -> None:
    _nodes(said, "placeholder")[-2]["name"] = name


@pytest.mark.parametrize(
    ("put", "name"),
    [
        (_input, 'args[len(open("proof", "w").name)]'),
        (_flat_input, 'x=open("proof", "w")'),
        (_attribute, 'c", open("proof", "w")) or getattr(self, "c'),
        (_keyword, 'b=open("proof", "w"), c'),
        (_node, 'x=open("proof", "w")'),
        (_node, 'x\n    open("proof", "w")'),
        (_input, "class"),
        (_keyword, "lambda"),
    ],
)
def test_nothing_in_a_file_is_run(
    put: Callable[[Any, str], None], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither on reading nor when the graph runs; text that would be code is refused."""
    monkeypatch.chdir(tmp_path)
    path = stored(f"run {name}".replace("\n", " "), tmp_path / "graph.wir")
    said = json.loads(text_of(path))
    put(said, name)
    with pytest.raises(WirError, match="FX202"):
        run(rewritten(path, path, json.dumps(said)))
    assert not (tmp_path / "proof").exists()
