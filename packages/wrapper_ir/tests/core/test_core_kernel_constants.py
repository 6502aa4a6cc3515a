"""Constants of kernels: 1, 1.0 and True are compiled differently, so kernels with them are different
kernels."""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import Any

import pytest

from wrapper_ir import check, from_json, ir, parse_program, print_program, to_json
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir_tools.diff import diff_programs

TEXT = """wir 0.5
target cuda:0 arch "sm_90"

kernel triton @k entry "k" (read f32* x, write f32* y)
  order(x, y, V, BLOCK)
  constants(V = VALUE)
  configs(
    {BLOCK = 16} warps(4) stages(1),
  )
  grid(1) {{{
def k(x, y, V, BLOCK): pass
}}}

func @main() {
  return
}
"""


class Flag(enum.IntEnum):
    ON = 1


def program(value: str) -> ir.Program:
    return parse_program(TEXT.replace("VALUE", value))


def kernel(program: ir.Program) -> ir.TritonKernel:
    (definition,) = program.kernels
    assert isinstance(definition, ir.TritonKernel)
    return definition


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "1.0",
        "true",
        "-0.0",
        '"a"',
        "none",
        "dtype(f32)",
        "(1, 2.0, false)",
        '(none, "a, b", dtype(f32))',
        "()",
    ],
)
def test_forms(text: str) -> None:
    one = program(text)
    assert check(one) == ()
    assert f"constants(V = {text})" in print_program(one)
    assert parse_program(print_program(one)) == one == from_json(to_json(one))


def test_equality_is_that_of_what_is_compiled() -> None:
    values = ("1", "1.0", "true", "0.0", "-0.0", "(1, 0)", "(true, false)", "(1.0, 0)")
    kernels = [kernel(program(v)) for v in values]
    assert len(set(kernels)) == len(values) == len({content_hash(k) for k in kernels})
    assert kernels == [kernel(program(v)) for v in values]
    assert diff_programs(program("1"), program("true"))
    metas = [ir.TritonConfig(meta=(("A", v),), num_warps=1, num_stages=1) for v in (1, 1.0, True)]
    assert len(set(metas)) == len(metas)


@pytest.mark.parametrize("value", [Flag.ON, [1], (1, (2,)), b"", 1j, {}], ids=str)
@pytest.mark.parametrize("place", ["constants", "options", "meta"])
def test_other_classes_are_refused(
    value: Any, place: str
) -> None:  # Any: values that the field does not take
    one = program("1")
    plain = kernel(one)
    if place == "meta":
        changed = replace(plain, configs=(replace(plain.configs[0], meta=(("BLOCK", value),)),))
    else:
        changes: dict[str, Any] = {place: (("V", value),)}
        changed = replace(plain, **changes)
    (diagnostic,) = check(replace(one, kernels=(changed,)))
    assert diagnostic.code == "WIR001"
    assert type(value).__name__ in diagnostic.message or "tuple" in diagnostic.message
