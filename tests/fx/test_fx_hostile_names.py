"""Names that mean something to Python, to torch or to a printer, of everything in a program that has a name:
conversion works, or refuses with a code, and no name becomes code.
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import fx

import fx_converter
import wrapper_ir
from fx_converter import FxOptions, passes
from fx_converter.kernels import KernelCalls
from py_wrapper import TORCH_MACHINE
from tests.common.compare import assert_same
from tests.common.forms import FORMS
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import WirError
from wrapper_ir.support.quoting.text_form import quote, symbol_name, value_name

RAN = "wrapper_ir_names_ran"
CODE = f'__import__("builtins").{RAN}.append(1)'
NAMES = [
    "class", "lambda", "None", "True", "self", "_convention", "_leaves", "_attributes", "torch", "device", "inf", "nan",
    "fx_pytree", "pytree", "args", "kwargs", "run", "print", "forward", "graph", "code", "training", "_buffers", "_modules",
    "meta", "recompile", "__class__", "__dict__", "__init__", "__debug__", "a" * 100, "a" * 300, "ä", "名前", "ﬁ", "x y",
    "x\ny", "x\n", "\n", "x'y", 'x"y', "x\\", "x\0y", "\0", "\ud800", '"""', "'''", "x#y", "2x", "", " ", "-", ".", "a.b",
    "a..b", ".a", "x\r", "x\u2028y", "\x1b[0m", "%x", "@f", "{x}", "{", "$x", "wrapper_ir", "_stream", "__name__", "_0",
    f'x"""\n{CODE}\n"""', f"x'+{CODE}+'", f"x\n    {CODE}\n", f"x);{CODE};(", f"x # {CODE}", f"x:{CODE}", f"x={CODE}",
]  # fmt: skip
THINGS = ("input", "value", "constant", "function", "argument", "symbol", "message", "kernel", "provenance")
PROGRAM = """wir 0.5
target cpu

extern "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
extern "aten::relu(Tensor self) -> Tensor"

symbol {symbol} : int backed [2, 64] hint 4

const %{constant} : f32[4]

kernel cpp @{kernel} entry "fill" (write f32* y, i64 count) {{{{{{
extern "C" void fill(float* y, long count) {{ for (long i = 0; i < count; i++) y[i] = 2; }}
}}}}}}

func @main(%{input}: f32[{symbol}], %first: bool[]) {{
  define {symbol} = size(%{input}, 0)
  comment {message}
  assert {symbol} > 1 {message}
  assert_layout %{input} [{symbol}] [1] {message}
  %{value} = call aten::add.Tensor(%{input}, %{constant}) : f32[{symbol}]  #1
  %filled = alloc f32[4]
  launch @{kernel}(%filled, 4)
  %chosen = cond %first then @{function} else @other (%{value}) : f32[{symbol}]
  free %{value}
  %all = call aten::add.Tensor(%chosen, %filled) : f32[{symbol}]
  free %chosen
  free %filled.s
  return %all
}}

func @{function}(%{argument}: f32[{symbol}]) captures({symbol}) {{
  %inner = call aten::relu(%{argument}) : f32[{symbol}]
  return %inner
}}

func @other(%x: f32[{symbol}]) captures({symbol}) {{
  %y = call aten::add.Tensor(%x, %x) : f32[{symbol}]
  return %y
}}

provenance
  #1 nodes({provenance}) ops({provenance}) at({provenance}) modules({provenance})
"""
PLAIN = {
    "input": "p", "value": "v", "constant": "w", "function": "some", "argument": "a", "symbol": "s0", "message": '"m"',
    "kernel": "k", "provenance": '"n"',
}  # fmt: skip


def spelled(thing: str, name: str) -> str:
    if thing in ("message", "provenance"):
        return quote(name)
    return symbol_name(name) if thing == "symbol" else value_name(name)


def artifact_of(thing: str, name: str) -> Artifact | None:
    """None where the language has no such name."""
    text = PROGRAM.format(**{**PLAIN, thing: spelled(thing, name)})
    held = name if thing == "constant" else "w"
    try:
        program = wrapper_ir.parse_program(text)
        wrapper_ir.verify(program)
    except WirError as error:
        assert error.code
        return None
    return bare_artifact(program, {held: TORCH_MACHINE.data(torch.ones(4))})


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ran: list[int] = []
    monkeypatch.setattr(builtins, RAN, ran, raising=False)
    yield
    assert ran == []


def check(thing: str, name: str, form: KernelCalls, folder: Path | None = None) -> bool:
    """Returns whether the program exists and converts."""
    artifact = artifact_of(thing, name)
    if artifact is None:
        return False
    try:
        module = fx_converter.convert(artifact, FxOptions(kernel_calls=form))
    except WirError as error:
        assert error.code
        return False
    module.graph.lint()
    for each in (m for m in module.modules() if isinstance(m, fx.GraphModule)):
        each.print_readable(print_output=False)
        assert str(each.graph)
        assert str(each.code)
    ways = [module, copy.deepcopy(module), fx.Transformer(module).transform()]
    if folder is not None:
        try:
            fx_converter.save(module, folder / "graph.wir")
            ways.append(fx_converter.load(folder / "graph.wir"))
        except WirError as error:
            assert error.code
    ways.append(module)
    passes.cse(ways[1])
    x = torch.arange(4.0) - 2
    for way in ways:
        for first in (True, False):
            want = torch.relu(x + 1) + 2 if first else (x + 1) * 2 + 2
            assert_same(way(x.clone(), torch.tensor(first)), (want,))
    boxed = fx_converter.boxed_call(
        fx_converter.convert(artifact, FxOptions(kernel_calls=form, convention="flat"))
    )
    assert_same(boxed([x.clone(), torch.tensor(True)]), (torch.relu(x + 1) + 2,))
    return True


def check_all(names: Sequence[str], thing: str, form: KernelCalls, folder: Path) -> None:
    checked = sum(check(thing, name, form, folder) for name in names)
    assert checked > (0 if thing == "symbol" else len(names) // 2)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("thing", THINGS)
def test_names_that_mean_something(thing: str, form: KernelCalls, tmp_path: Path) -> None:
    """Every third name, so that neighbours in `THINGS` together cover all of them."""
    check_all(NAMES[THINGS.index(thing) % 3 :: 3], thing, form, tmp_path)


@pytest.mark.conformance
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("thing", THINGS)
def test_all_names(thing: str, form: KernelCalls, tmp_path: Path) -> None:
    check_all(NAMES, thing, form, tmp_path)


@pytest.mark.slow
@given(st.sampled_from(THINGS), st.text(max_size=12), st.sampled_from(FORMS))
def test_any_names(thing: str, name: str, form: KernelCalls) -> None:
    check(thing, name, form)
