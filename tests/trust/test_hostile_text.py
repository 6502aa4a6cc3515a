"""With any names and texts in a program, emitted code compiles, runs, equals the interpreter, and runs
nothing else.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib.util
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from packages.py_wrapper.tests.py_case import find_runtime
from packages.wrapper_ir.tests.quoting.hostile import did_fire, texts

import fx_converter
import py_wrapper
from fx_converter import FxOptions
from py_wrapper import TORCH_MACHINE, PyOptions
from tests.trust.hostile_program import HostileProgram, hostile_programs
from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.errors import WirError
from wrapper_ir.operators.policy import ALL_OPERATORS
from wrapper_ir.support.quoting import quote
from wrapper_ir_runtime.interp import InterpOptions, Interpreter

# A program contains some 25 texts; shrinking failing ones takes minutes without further information.
FEW = settings(
    max_examples=20,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TINY = loaded(Path(__file__).resolve().parents[2] / "examples" / "tiny_emitter" / "tiny_emitter.py")


def same(found: object, want: object) -> bool:
    if isinstance(found, dict) and isinstance(want, dict):
        return list(found) == list(want) and all(map(same, found.values(), want.values()))
    if isinstance(found, torch.Tensor) and isinstance(want, torch.Tensor):
        return torch.equal(found, want)
    return found == want


@pytest.fixture(scope="module")
def folder() -> Any:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@given(hostile_programs())
@FEW
def test_interpreter(case: HostileProgram) -> None:
    run = Interpreter(case.artifact(), TORCH_MACHINE, InterpOptions(find_runtime=find_runtime))
    assert same(run(*case.arguments()), case.expected())
    assert not did_fire()


@pytest.mark.parametrize("keep", [False, True])
@given(hostile_programs())
@FEW
def test_python(folder: Path, keep: bool, case: HostileProgram) -> None:
    options = PyOptions(find_runtime=find_runtime, cache_folder=folder, persistent_buffers=keep)
    compiled = py_wrapper.compile(case.artifact(), options)
    for _ in range(2):
        assert same(compiled(*case.arguments()), case.expected())
    assert not did_fire()


@pytest.mark.parametrize("calls", ["direct", "hop"])
@given(hostile_programs())
@FEW
def test_fx(calls: Any, case: HostileProgram) -> None:
    options = FxOptions(find_runtime=find_runtime, kernel_calls=calls)
    module = fx_converter.convert(case.artifact(), options)
    assert same(module(*case.arguments()), case.expected())
    assert not did_fire()
    ast.parse(module.graph.python_code("self", verbose=True).src)  # with comments, as tools print it


@given(hostile_programs(plain=True))
@FEW
def test_example_emitter(case: HostileProgram) -> None:
    compiled = TINY.EMITTER.compile(case.artifact())
    assert same(compiled(*case.arguments()), case.expected())
    assert not did_fire()


@given(hostile_programs(plain=True))
@settings(FEW, max_examples=20)
def test_folder(case: HostileProgram) -> None:
    """Written files run standalone, and as a script."""
    with tempfile.TemporaryDirectory() as name:
        path = py_wrapper.write(case.artifact(), name)[0]
        module = loaded(path)
        assert same(module.forward(*case.arguments()), case.expected())
    assert not did_fire()


HEAD = 'wir 0.5\ntarget cpu\nextern "aten::relu(Tensor self) -> Tensor"\n'


def refused_alike(program: ir.Program, args: list[Any], folder: Path) -> str:
    """The code of the error with which interpreter, Python and FX refuse a call."""
    artifact = bare_artifact(program)
    codes = set()
    for make in (
        lambda: Interpreter(artifact, TORCH_MACHINE, InterpOptions(operators=ALL_OPERATORS)),
        lambda: py_wrapper.compile(artifact, PyOptions(cache_folder=folder, operators=ALL_OPERATORS)),
        lambda: fx_converter.convert(artifact, FxOptions(operators=ALL_OPERATORS)),
        lambda: fx_converter.convert(artifact, FxOptions(kernel_calls="direct", operators=ALL_OPERATORS)),
    ):
        with pytest.raises(WirError) as caught:
            make()(*args)
        codes.add(caught.value.code)
    assert not did_fire()
    assert len(codes) == 1, codes
    return codes.pop()


@given(texts())
@FEW
def test_groups(folder: Path, group: str) -> None:
    program = parse_program(
        f"""wir 0.5
target cpu
extern "_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective)
func @main(%x: f32[8]) {{
  %h = collective _c10d_functional::all_reduce(%x, "sum", {quote(group)}) group({quote(group)}) : f32[8]
  %z = wait %h : f32[8]
  return %z
}}
"""
    )
    assert refused_alike(program, [torch.ones(8)], folder) == "WIR915"


@given(texts())
@FEW
def test_operators(folder: Path, name: str) -> None:
    """Emitted text is not code even if no engine looks the operator up first."""
    plain = name.replace("(", "[").strip() or "x"
    for target in (
        f"{plain}::relu",
        f"aten::{plain}",
        f"aten::relu.{plain}",
        f"higher_order::{plain}",
        plain,
    ):
        program = parse_program(
            HEAD + "func @main(%x: f32[8]) {\n  %y = call aten::relu(%x) : f32[8]\n  return %y\n}\n"
        )
        body = tuple(
            dataclasses.replace(op, target=target) if isinstance(op, ir.CallExtern) else op
            for op in program.main.body
        )
        schema = f"{target}(Tensor self) -> Tensor"
        broken = dataclasses.replace(
            program,
            externs=(ir.ExternDef(schema=schema),),
            functions=(dataclasses.replace(program.main, body=body),),
        )
        assert refused_alike(broken, [torch.ones(8)], folder) == "WIR914"
        run_anyway(py_wrapper.emit(bare_artifact(broken), PyOptions(operators=ALL_OPERATORS)).source)


@given(texts())
@FEW
def test_devices(name: str) -> None:
    for device in (ir.Device(name), ir.Device(name, 0), ir.Device(f"cpu.{name}")):
        program = parse_program(
            HEAD.replace("target cpu", "target cuda:0")
            + 'extern "aten::bernoulli_.float(Tensor(a!) self, float p=0.5) -> Tensor(a!)" tags(random)\n'
            + "func @main(%x: f32[8]) {\n  %e = record_event @cuda:0 stream(1)\n  sync_event %e\n  drop %e\n"
            "  %y = alloc f32[8]\n  copy %y, %x stream(1)\n  call aten::bernoulli_.float(%y)\n  return %y\n}\n"
        )
        hostile = moved(program, device)
        artifact = bare_artifact(hostile)
        assert artifact.signature.random == (ir.RandomState(device=device),)  # mentioned in a docstring
        run_anyway(py_wrapper.emit(artifact).source)


def moved(x: Any, device: ir.Device) -> Any:  # Any: parts of a program
    """Returns the same on another device, which no text form and no pass would produce."""
    if isinstance(x, ir.Device):
        return device if x.type == "cuda" else x
    if isinstance(x, ir.Value):
        return ir.Value(x.name, moved(x.type, device))
    if isinstance(x, tuple):
        return tuple(moved(part, device) for part in x)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        fields = {f.name: moved(getattr(x, f.name), device) for f in dataclasses.fields(x)}
        return dataclasses.replace(x, **fields)
    return x


def run_anyway(source: str) -> None:
    """Runs a module that cannot work, to see that nothing else in it does anything."""
    code = compile(source, "<emitted>", "exec")
    with contextlib.suppress(Exception):
        exec(code, {"__name__": "program", "__file__": "program.py", "__spec__": None})
    assert not did_fire()
