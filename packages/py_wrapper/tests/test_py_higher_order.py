"""Higher-order operators: printing, and operators run from a given random state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import py_wrapper
from py_wrapper import TORCH_MACHINE, PyOptions
from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import NotSupportedError
from wrapper_ir.operators.policy import ALL_OPERATORS
from wrapper_ir_runtime.interp import InterpOptions, run
from wrapper_ir_torch import resolve

_SAVING = "higher_order::run_and_save_rng_state.aten__native_dropout__default"
_STARTING = "higher_order::run_with_rng_state.aten__native_dropout__default"
_ARGUMENTS = "Tensor input, float p, bool? train"

RANDOM = f"""wir 0.5
target cpu

extern "{_SAVING}({_ARGUMENTS}) -> (Tensor, (Tensor, Tensor))" tags(random)
extern "{_STARTING}(Tensor rng_state, {_ARGUMENTS}) -> (Tensor, Tensor)" tags(random)

func @main(%x: f32[64]) {{
  %first = call {_SAVING}(%x, 0.5, true) : results
  %state = unpack %first[0] : u8[5056]
  %kept = unpack %first[1][0] : f32[64]
  drop %first
  %second = call {_STARTING}(%state, %x, 0.5, true) : results
  free %state
  %again = unpack %second[0] : f32[64]
  drop %second
  drop %x
  return %kept, %again
}}
"""

PRINTING = """wir 0.5
target cpu

extern "higher_order::print.Tensor_n_SymInt(str format_str, Tensor arg0, *, SymInt n) -> ()" tags(effectful, host_io)
extern "higher_order::print.text(str format_str) -> ()" tags(effectful, host_io)

func @main(%x: i64[2]) {
  call higher_order::print.Tensor_n_SymInt("{n}: {}", %x, n=7)
  call higher_order::print.text("done")
  drop %x
  return
}
"""


def _engines(text: str) -> tuple[Artifact, dict[str, Callable[[list[Any]], Any]]]:
    artifact = bare_artifact(parse_program(text))
    compiled = py_wrapper.compile(artifact, PyOptions(operators=ALL_OPERATORS))
    options = InterpOptions(operators=ALL_OPERATORS)
    return artifact, {
        "interpreter": lambda inputs: run(artifact, inputs, TORCH_MACHINE, options),
        "python": compiled.boxed,
    }


def test_random_states() -> None:
    for name, engine in _engines(RANDOM)[1].items():
        torch.manual_seed(5)
        want, _ = torch.native_dropout(torch.ones(64), 0.5, True)
        after = torch.get_rng_state()
        torch.manual_seed(5)
        kept, again = engine([torch.ones(64)])
        assert torch.equal(kept, want), name
        assert torch.equal(again, want), name
        assert torch.equal(torch.get_rng_state(), after), name


def test_printing(capfd: pytest.CaptureFixture[str]) -> None:
    for name, engine in _engines(PRINTING)[1].items():
        engine([torch.tensor([1, 2])])
        assert capfd.readouterr().out == "7: tensor([1, 2])\ndone\n", name


def test_emitted_names_are_readable() -> None:
    source = py_wrapper.emit(_engines(RANDOM)[0]).source
    assert "native_dropout_saving_state = lambda" in source
    assert "torch.ops.aten.native_dropout.default" in source
    assert (
        "print_values(" in py_wrapper.emit(_engines(PRINTING)[0], PyOptions(operators=ALL_OPERATORS)).source
    )


@pytest.mark.parametrize(
    "name", ["run_with_rng_state.rand", "run_with_rng_state.no__such__operator", "nothing.at_all"]
)
def test_unknown_operators(name: str) -> None:
    text = f"""wir 0.5
target cpu

extern "higher_order::{name}(Tensor rng_state) -> Tensor"

func @main(%x: f32[2]) {{
  %y = call higher_order::{name}(%x) : f32[2]
  drop %x
  return %y
}}
"""
    artifact = bare_artifact(parse_program(text))
    with pytest.raises(NotSupportedError, match=r"WIR914.*higher_order"):
        run(artifact, [torch.ones(2)], TORCH_MACHINE, InterpOptions(operators=ALL_OPERATORS))
    with pytest.raises(NotSupportedError, match=r"WIR914.*higher_order"):
        py_wrapper.compile(artifact, PyOptions(operators=ALL_OPERATORS))


def test_operators_are_found_by_name() -> None:
    found = resolve(ir.ExternDef(schema="higher_order::print.text(str format_str) -> ()"))
    assert found.call() is torch.ops.higher_order.print
