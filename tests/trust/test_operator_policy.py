"""Operators with reach are refused in every engine unless they are allowed, before anything of a program
runs.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import fx_converter
import py_wrapper
import wrapper_ir
from fx_converter import FxOptions
from py_wrapper import PyOptions
from py_wrapper.machine import TORCH_MACHINE
from tests.common.torch_versions import since
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.operators.policy import ALL_OPERATORS, REACH, OperatorPolicy
from wrapper_ir.verifier.allowed_operators import check_operators
from wrapper_ir_runtime.interp import InterpOptions, Interpreter
from wrapper_ir_tools.cli.main import main

HEAD = """
wir 0.5
target cpu

"""
FROM_FILE = """
extern "aten::from_file(str filename, bool? shared=None, int? size=0, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"
"""
MAIN = (
    FROM_FILE
    + """
func @main(%x: f32[4]) {{
  %y = call aten::from_file("{marker}", true, 4, dtype=f32) : f32[4]  #1
  return %y
}}

provenance
  #1 nodes("weights") ops("aten.from_file.default") at("model.py:7")
"""
)
CALLEE = (
    FROM_FILE
    + """
func @main(%x: f32[4], %go: bool[]) {{
  %y = cond %go then @then else @other (%x) : f32[4]
  return %y
}}

func @then(%p: f32[4]) {{
  %y = call aten::from_file("{marker}", true, 4, dtype=f32) : f32[4]
  return %y
}}

func @other(%p: f32[4]) {{
  %t = alloc f32[4]
  copy %t, %p
  return %t
}}
"""
)
HARMLESS = """
extern "aten::relu(Tensor self) -> Tensor"
extern "higher_order::print.Tensor(str format_str, Tensor arg0) -> ()"

func @main(%x: f32[4]) {
  call higher_order::print.Tensor("{}", %x)
  %y = call aten::relu(%x) : f32[4]
  return %y
}
"""


RELU = """
extern "aten::relu(Tensor self) -> Tensor"

func @main(%x: f32[4]) {
  %y = call aten::relu(%x) : f32[4]
  return %y
}
"""


def artifact(text: str, marker: Path | str = "") -> Artifact:
    return bare_artifact(wrapper_ir.parse_program(HEAD + (text.format(marker=marker) if marker else text)))


# Any: the model's results
Run = Callable[[Artifact, tuple[torch.Tensor, ...], OperatorPolicy], Any]


def interpreter(made: Artifact, args: tuple[torch.Tensor, ...], policy: OperatorPolicy) -> Any:
    return Interpreter(made, TORCH_MACHINE, InterpOptions(operators=policy))(*args)


def python(made: Artifact, args: tuple[torch.Tensor, ...], policy: OperatorPolicy) -> Any:
    return py_wrapper.compile(made, PyOptions(operators=policy))(*args)


def fx(made: Artifact, args: tuple[torch.Tensor, ...], policy: OperatorPolicy) -> Any:
    return fx_converter.compile(made, FxOptions(operators=policy))(*args)


def fx_module(made: Artifact, args: tuple[torch.Tensor, ...], policy: OperatorPolicy) -> Any:
    return fx_converter.convert(made, FxOptions(operators=policy, kernel_calls="hop"))(*args)


engines = pytest.mark.parametrize("run", [interpreter, python, fx, fx_module])
X = torch.ones(4)


@engines
def test_refused_by_default_and_allowed_by_name(tmp_path: Path, run: Run) -> None:
    marker = tmp_path / "marker"
    made = artifact(MAIN, marker)
    with pytest.raises(NotSupportedError) as raised:
        run(made, (X,), OperatorPolicy())
    assert raised.value.code == "WIR917"
    message = str(raised.value)
    for said in ("aten::from_file", "reads or writes files", "@main, op 0", "model.py:7", "--allow-operator"):
        assert said in message
    assert not marker.exists()
    for policy in (
        OperatorPolicy(allow=("aten::from_file",)),
        OperatorPolicy(allow=("aten::*",)),
        ALL_OPERATORS,
        OperatorPolicy(only=("aten::from_file",)),
    ):
        assert run(made, (X,), policy)[0].eq(0).all()
        assert marker.exists()
        marker.unlink()


@engines
def test_in_a_function_that_need_not_run(tmp_path: Path, run: Run) -> None:
    marker = tmp_path / "marker"
    made = artifact(CALLEE, marker)
    with pytest.raises(NotSupportedError, match="@then, op 0"):
        run(made, (X, torch.tensor(False)), OperatorPolicy())
    assert run(made, (X, torch.tensor(False)), ALL_OPERATORS)[0].eq(1).all()
    assert not marker.exists()


@engines
def test_an_allow_list(run: Run) -> None:
    made = artifact(HARMLESS)
    assert run(made, (X,), OperatorPolicy(allow=("higher_order::print",)))[0].eq(1).all()
    assert run(made, (X,), OperatorPolicy(only=("aten::*", "higher_order::print")))[0].eq(1).all()
    assert run(made, (X,), OperatorPolicy(only=("aten::relu",), allow=("higher_order::*",)))[0].eq(1).all()
    for only in ((), ("aten::*",), ("aten::relu.out", "higher_order::print"), ("aten::rel",)):
        with pytest.raises(NotSupportedError, match="WIR917"):
            run(made, (X,), OperatorPolicy(only=only))


@engines
def test_what_formats_text_is_not_allowed_by_default(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    """A format names attributes of its arguments, and thereby any object of the process."""
    text = HARMLESS.replace('"{}"', '"{0.__class__.__init__.__globals__}"')
    for policy in (OperatorPolicy(), OperatorPolicy(only=("aten::*",))):
        with pytest.raises(NotSupportedError, match=r"WIR917.*higher_order::print"):
            run(artifact(text), (X,), policy)
    assert capfd.readouterr().out == ""


def test_patterns() -> None:
    policy = OperatorPolicy(allow=("aten::from_file.out",))
    assert not policy.refusal("aten::from_file.out")
    assert policy.refusal("aten::from_file")
    assert policy.refusal("higher_order::call_torchbind")
    assert not policy.refusal("mylib::anything")
    for pattern in ("from_file", "", "aten::", "::x", "aten"):
        with pytest.raises(NotSupportedError, match="WIR918"):
            OperatorPolicy(allow=(pattern,))


def test_what_a_higher_order_operator_runs() -> None:
    text = """
extern "higher_order::run_with_rng_state.aten__{}__default(Tensor rng_state, Tensor x) -> Tensor"

func @main(%s: u8[5056], %x: f32[4]) {{
  %y = call higher_order::run_with_rng_state.aten__{}__default(%s, %x) : f32[4]
  return %y
}}
"""
    check_operators(wrapper_ir.parse_program(HEAD + text.format("rand_like", "rand_like")))
    with pytest.raises(NotSupportedError, match=r"aten::from_file\.default"):
        check_operators(wrapper_ir.parse_program(HEAD + text.format("from_file", "from_file")))


@pytest.mark.parametrize("name", ["__class__", "__init_subclass__", "__setattr__", "_dir", "name"])
def test_names_that_are_no_operators(name: str) -> None:
    """`torch.ops.higher_order` has methods and attributes as every object has."""
    text = f"""
extern "higher_order::{name}.x(str a, Tensor b) -> ()"

func @main(%x: f32[4]) {{
  call higher_order::{name}.x("a", %x)
  return %x
}}
"""
    made = artifact(text)
    for run in (interpreter, python, fx):
        with pytest.raises(NotSupportedError, match="WIR917"):
            run(made, (X,), OperatorPolicy())
        with pytest.raises(NotSupportedError, match="WIR914"):
            run(made, (X,), ALL_OPERATORS)


def test_operators_that_are_kernels() -> None:
    kernel = ir.OperatorKernel(
        name="load",
        params=(
            ir.KernelParam(name="out", kind=ir.ParamKind.POINTER, dtype=ir.DType.F32, access=ir.Access.WRITE),
        ),
        schema="aten::from_file.out(str filename, bool? shared=None, int? size=0, *, Tensor(a!) out) -> Tensor(a!)",
    )
    program = dataclasses.replace(artifact(RELU).program, kernels=(kernel,))
    with pytest.raises(NotSupportedError, match="kernel @load"):
        check_operators(program)
    check_operators(program, ALL_OPERATORS)


def test_saved_graphs(tmp_path: Path) -> None:
    """The graph in a file is data like the program: its operators are looked at, too."""
    marker, path = tmp_path / "marker", tmp_path / "graph.wir"
    allowed = FxOptions(operators=ALL_OPERATORS)
    fx_converter.save(fx_converter.convert(artifact(MAIN, marker), allowed), path)
    with pytest.raises(NotSupportedError, match="WIR917"):
        fx_converter.load(path)
    assert not marker.exists()
    assert fx_converter.load(path, allowed)(X)[0].eq(0).all()
    assert marker.exists()


def test_commands(tmp_path: Path) -> None:
    marker, path = tmp_path / "marker", tmp_path / "m.wir"
    wrapper_ir.save(artifact(MAIN, marker), path)

    def wir(*args: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, list(args))
        return done.exit_code, done.output

    for engine in ("interpreter", "python", "fx"):
        status, output = wir("run", str(path), "--with", engine)
        assert (status, "WIR917" in output) == (2, True)
        assert not marker.exists()
        assert wir("run", str(path), "--with", engine, "--allow-operator", "aten::from_file")[0] == 0
        marker.unlink()
    status, output = wir("emit", str(path), "--to", "python", "-o", str(tmp_path / "out"))
    assert (status, "WIR917" in output) == (2, True)
    allowed = ("--allow-operator", "aten::from_file")
    for target in ("python", "fx"):
        assert wir("emit", str(path), "--to", target, "-o", str(tmp_path / target), *allowed)[0] == 0
    assert not marker.exists()
    assert "WIR918" in wir("run", str(path), "--allow-operator", "from_file")[1]


def test_a_model_of_the_process_is_not_asked(tmp_path: Path) -> None:
    """A capture of `torch.compile` is the caller's own code."""
    path = tmp_path / "weights"
    path.write_bytes(torch.full((4,), 2.0).numpy().tobytes())

    def model(x: torch.Tensor) -> torch.Tensor:
        read: torch.Tensor = torch.ops.aten.from_file(str(path), False, 4, dtype=torch.float32)
        return x + read

    compiled = torch.compile(model, backend="wrapper_ir", options={"cache": False})
    assert compiled(X).eq(3).all()


# Operators that torch registers with texts among their arguments, none of which names a file or code.
_TEXTS = frozenset(
    [
        "approximate",
        "reduce",
        "norm",
        "rounding_mode",
        "interpolation",
        "driver",
        "mode",
        "ord",
        "p",
        "pad_mode",
        "UPLO",
        "side",
        "padding",
        "equation",
        "indexing",
        "api_name",
        "activation",
        "rows",
        "algorithm",
        "padding_side",
        "assert_msg",
        "message",
        "a",
        "b",
        "device_type",
        "reduce_op",
        "group_name",
        "op_list",
        "tag",
        "args",
        "name",
        "attr",
        "binary_attr",
        "unary_attr",
        "unary_algorithm",
        "post_op_name",
        "post_op_algorithm",
        "binary_post_op",
        "unary_post_op",
        "unary_post_op_algorithm",
        "red_op",
        "reduceOp",
        "op_type",
        "attr_keys",
        "attr_types",
        "attr_strs",
        "metadata_props_keys",
        "metadata_props_values",
        "domain",
        "self",
        "cls",
        "type",
    ]
)
_STRING_METHODS = frozenset(
    [
        "substr",
        "input",
        "dict",
        "idx",
        "pg_name",
        "el",
        "key",
        "inputs",
        "item",
        "string",
        "s",
        "l",
        "t",
        "to_add",
        "fillchar",
        "values",
        "separator",
        "chars",
        "old",
        "new",
        "str",
    ]
)


_DIMENSIONS = frozenset(
    ["dim", "dims", "names", "order", "out_dim", "start_dim", "end_dim", "dim0", "dim1", "dim2", "outdim"]
    if not since("2.13")
    else []
)
"""Names of dimensions, which are texts to schemas: torch before 2.13 has operators on named tensors."""


def test_operators_of_torch_that_take_texts_are_known() -> None:
    """A release of torch with an operator that has a text argument of another name must be reviewed: it may
    be a path.
    """
    odd = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("fe_ops::"):  # of other tests in this process
            continue
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        texts = {a.name for a in schema.arguments if re.search(r"\bstr\b", str(a.type))}
        unknown = texts - _TEXTS - _STRING_METHODS - _DIMENSIONS
        if unknown and not OperatorPolicy().refusal(name):
            odd[name] = unknown
    assert not odd


def test_known_operators_exist_or_belong_to_other_libraries() -> None:
    ours = [name for name in REACH if not name.endswith("*") and name.split("::")[0] in ("aten", "export")]
    registered = {schema.name for schema in torch._C._jit_get_all_schemas()}
    assert set(ours) <= registered
