"""An op that only this file knows goes everywhere with nothing but its class and one handler."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from jsonschema import Draft202012Validator, ValidationError
from packages.wrapper_ir_runtime.tests.interp.list_machine import ListMachine, tensor

from wrapper_ir import check, ir, parse_program, print_program
from wrapper_ir.errors import ParseError
from wrapper_ir.expr import Expr, Sym
from wrapper_ir.json import from_json, to_json
from wrapper_ir.json.program import program_schema
from wrapper_ir_runtime.interp import InterpOptions, run
from wrapper_ir_tools.testing import RandomOptions, random_program


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledSum(ir.OpBase):
    """`result` is `left + factor * right`, or `left` minus that where `negated`.

    Text: `%y = scaled_sum %x, %x by s0 negated`.
    """

    syntax: ClassVar[str] = "{result} = scaled_sum {left}, {right} by {factor}< {negated}> : {result:type}"
    effect_spec: ClassVar[ir.EffectSpec] = ir.reads("left", "right") | ir.fresh("result")

    left: ir.Use[ir.TensorType]
    right: ir.Use[ir.TensorType]
    factor: Expr
    result: ir.Def[ir.TensorType]
    negated: bool = False


NEW_OPS = ir.OPS.extended(ScaledSum)
TEXT = """wir 0.5
target cpu

symbol s0 : int backed [1, 8]

func @main(%x: f32[s0], %y: f32[s0]) {
  define s0 = size(%x, 0)
  %r = scaled_sum %x, %y by 2*s0 negated : f32[s0]
  drop %x
  drop %y
  return %r
}
"""


def scaled_sum(op: ScaledSum, frame: Any) -> None:  # Any: of whatever machine
    factor = frame.number(op.factor) * (-1 if op.negated else 1)
    left, right = frame.value(op.left), frame.value(op.right)
    frame.bind_checked(op.result, tensor([left[i] + factor * right[i] for i in left.indices()]))


OPTIONS = InterpOptions(handlers={ScaledSum: scaled_sum})


def _op() -> ScaledSum:
    op: ir.OpBase = parse_program(TEXT, NEW_OPS).main.body[1]
    assert isinstance(op, ScaledSum)
    return op


def test_text() -> None:
    assert print_program(parse_program(TEXT, NEW_OPS)) == TEXT
    with pytest.raises(ParseError, match=r"WIR503.*scaled_sum"):
        parse_program(TEXT)


def test_verifier() -> None:
    program = parse_program(TEXT, NEW_OPS)
    assert check(program, NEW_OPS) == ()
    assert [d.code for d in check(program)] == ["WIR001"]
    unread = parse_program(TEXT.replace("  drop %y\n", ""), NEW_OPS)
    assert check(unread, NEW_OPS) == ()  # a borrowed parameter need not be dropped
    freed = parse_program(TEXT.replace("return %r", "free %r\n  return"), NEW_OPS)
    assert check(freed, NEW_OPS) == ()  # the result is the function's own
    with pytest.raises(ParseError, match="WIR013"):
        parse_program(TEXT.replace("%y: f32[s0]", "%y: int"), NEW_OPS)


def test_traversal_and_renaming() -> None:
    op = _op()
    x, y = op.left, op.right
    assert (ir.operands(op), ir.results(op), ir.exprs(op)) == ((x, y), (op.result,), (2 * Sym("s0"),))
    swap: dict[ir.Value, ir.Value] = {x: y, y: x}
    swapped = ir.map_values(op, swap.__getitem__)
    assert (swapped.left, swapped.right) == (y, x)
    assert ir.op_spec(ScaledSum).tag == "scaled_sum"


def test_json_and_schema() -> None:
    program = parse_program(TEXT, NEW_OPS)
    document = to_json(program, NEW_OPS)
    assert from_json(document, NEW_OPS) == program
    validator = Draft202012Validator(program_schema(NEW_OPS))
    validator.validate(json.loads(document))
    with pytest.raises(ValidationError):
        validator.validate(json.loads(document.replace('"negated":true', '"negated":1')))
    with pytest.raises(ParseError, match="scaled_sum"):
        from_json(document)


def test_random_programs() -> None:
    options = RandomOptions(executable=True, ops=NEW_OPS)
    programs = [random_program(random.Random(seed), 20, options) for seed in range(20)]
    for program in programs:
        assert check(program, NEW_OPS) == ()
        assert parse_program(print_program(program), NEW_OPS) == program
    assert any(isinstance(op, ScaledSum) for p in programs for op in p.main.body)


def test_interpreter() -> None:
    x, y = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    (result,) = run(parse_program(TEXT, NEW_OPS), [x, y], ListMachine(), OPTIONS)
    assert result.tolist() == [-11.0, -14.0]
