"""Translation validation detects the errors of wrong passes, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest

from wrapper_ir import check, ir, parse_program
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.errors import PassError
from wrapper_ir.plugins.passes import Pass
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_passes.translation import compare

HEAD = """wir 0.5
target cpu

mutable const %state : f32[8]
extern "aten::rand_like(Tensor self) -> Tensor" tags(random)
extern "lib::sum(Tensor x, str group_name) -> Tensor" tags(collective)
extern "lib::sum_(Tensor(a!) x, str group_name) -> Tensor(a!)" tags(collective)
kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{
}}}
kernel cpp @add entry "add" (read f32* a, read f32* b, write f32* dst) {{{
}}}
kernel cpp @inplace entry "inplace" (readwrite f32* dst) {{{
}}}

"""


def _program(body: str, params: str = "%x: f32[8], %y: f32[8]") -> ir.Program:
    program = derive_frees(parse_program(f"{HEAD}func @main({params}) {{\n{body}\n}}\n"))
    assert check(program) == ()
    return program


BASE = """
  %a = alloc f32[8]
  %b = alloc f32[8]
  %c = alloc f32[8]
  launch @k(%x, %a)
  launch @k(%y, %b)
  launch @add(%a, %b, %c)
  return %c
"""

SAME = {
    "independent ops in another order": """
  %b = alloc f32[8]
  %a = alloc f32[8]
  launch @k(%y, %b)
  launch @k(%x, %a)
  %c = alloc f32[8]
  launch @add(%a, %b, %c)
  return %c
""",
    "other names, and a dead op": """
  %p = alloc f32[8]
  %dead = alloc f32[8]
  %q = alloc f32[8]
  launch @k(%x, %p)
  launch @k(%p, %dead)
  launch @k(%y, %q)
  %r = alloc f32[8]
  launch @add(%p, %q, %r)
  return %r
""",
    "one pool": """
  %pool = alloc_storage 64 pool
  %a.s = slot %pool + 32 : 32
  %a = view %a.s : f32[8]
  %b.s = slot %pool : 32
  %b = view %b.s : f32[8]
  %c = alloc f32[8]
  launch @k(%x, %a)
  launch @k(%y, %b)
  launch @add(%a, %b, %c)
  return %c
""",
    "storage used twice": """
  %t = alloc f32[8]
  %b = alloc f32[8]
  launch @k(%y, %t)
  launch @k(%x, %t)
  %a = reuse %t : f32[8]
  launch @k(%y, %b)
  %c = alloc f32[8]
  launch @add(%a, %b, %c)
  return %c
""",
}

OTHER = {
    "operands exchanged": BASE.replace("@add(%a, %b, %c)", "@add(%b, %a, %c)"),
    "written once more": BASE.replace("  return", "  launch @inplace(%c)\n  return"),
    "written too early": """
  %a = alloc f32[8]
  %b = alloc f32[8]
  %c = alloc f32[8]
  launch @k(%x, %a)
  launch @k(%x, %b)
  launch @add(%a, %b, %c)
  launch @k(%y, %b)
  return %c
""",
    "another result": BASE.replace("return %c", "return %a"),
    "an argument written": BASE.replace("  return", "  launch @k(%a, %y)\n  return"),
    "state written": BASE.replace("  return", "  launch @k(%a, %state)\n  return"),
    "random state moved": BASE.replace("  return", "  %r = call aten::rand_like(%c) : f32[8]\n  return"),
    "another window": BASE.replace("return %c", "%v = view %c : f32[4]\n  return %v"),
}


@pytest.mark.parametrize("case", SAME, ids=lambda c: c.replace(" ", "-"))
def test_same(case: str) -> None:
    assert compare(_program(BASE), _program(SAME[case])) is None


@pytest.mark.parametrize("case", OTHER, ids=lambda c: c.replace(" ", "-"))
def test_other(case: str) -> None:
    difference = compare(_program(BASE), _program(OTHER[case]))
    assert difference is not None
    assert difference.function == "main"


STRIDED = """
  %a = alloc f32[7]
  launch @k(%x, %a) extents(28, 28)
  %v = view %a : f32[4]{{2}}
  launch @k(%y, %v) extents(28, 28)
  {last}
"""
READERS = {
    "holes are read": "return %a",
    "holes are not read": "%c = alloc f32[4]{2}\n  launch @k(%v, %c) extents(28, 28)\n  return %c",
}


@pytest.mark.parametrize("reader", READERS)
def test_what_a_strided_write_leaves_in_its_holes(reader: str) -> None:
    """It exists only for its readers."""
    base = STRIDED.format(last=READERS[reader])
    other = base.replace("@k(%x, %a)", "@k(%y, %a)")
    assert (compare(_program(base), _program(other)) is None) == (reader == "holes are not read")


def test_a_write_through_an_overlapping_tensor_leaves_holes() -> None:
    """It has five of nine places, although its element count equals the bytes between the first and the last."""
    base = (
        STRIDED.format(last="return %a").replace("f32[7]", "f32[9]").replace("f32[4]{2}", "f32[3, 3]{2, 2}")
    )
    base, params = base.replace("28", "36"), "%x: f32[9], %y: f32[9]"
    other = base.replace("@k(%x, %a)", "@k(%y, %a)")
    assert compare(_program(base, params), _program(other, params)) is not None


TWO_SUMS = """
  %a = alloc f32[8]
  %d = alloc f32[8]
  launch @k(%x, %a)
  %g = collective lib::sum_(%a, "0") group("0") : f32[8]
  %h = collective lib::sum(%y, "0") group("0") : f32[8]
  %b = wait %g : f32[8]
  %c = wait %h : f32[8]
  launch @add(%b, %c, %d)
  return %d
"""
STARTS = [line for line in TWO_SUMS.splitlines() if "= collective" in line]


def test_collectives_keep_their_order() -> None:
    """Processes that start them in different orders wait for each other forever."""
    base = _program(TWO_SUMS)
    assert compare(base, _program(TWO_SUMS)) is None
    other = _program(TWO_SUMS.replace("\n".join(STARTS), "\n".join(reversed(STARTS))))
    difference = compare(base, other)
    assert difference is not None
    assert "collective" in difference.what.lower()


def test_a_collective_that_nobody_needs_stays() -> None:
    program = _program(TWO_SUMS.replace("launch @add(%b, %c, %d)", "launch @k(%x, %d)"))
    result = run_pipeline(program, "eliminate-dead-ops")
    assert [op for op in result.main.body if isinstance(op, ir.CollectiveStart | ir.Wait)] == [
        op for op in program.main.body if isinstance(op, ir.CollectiveStart | ir.Wait)
    ]


@dataclasses.dataclass(frozen=True)
class _SwapOperands(Pass):
    name: ClassVar[str] = "swap-operands"

    def transform(self, analyses: Analyses) -> ir.Program:
        program, main = analyses.program, analyses.program.main
        body = tuple(
            dataclasses.replace(op, args=(op.args[1], op.args[0], *op.args[2:]))
            if isinstance(op, ir.Launch) and op.kernel == "add"
            else op
            for op in main.body
        )
        return dataclasses.replace(program, functions=(dataclasses.replace(main, body=body),))


@dataclasses.dataclass(frozen=True)
class _DropReturn(Pass):
    name: ClassVar[str] = "drop-return"

    def transform(self, analyses: Analyses) -> ir.Program:
        program = analyses.program
        main = dataclasses.replace(program.main, body=program.main.body[:-1])
        return dataclasses.replace(program, functions=(main,))


@pytest.mark.parametrize(("step", "code"), [(_SwapOperands(), "WIR805"), (_DropReturn(), "WIR804")])
def test_pipeline_names_the_pass_that_broke_the_program(step: Pass, code: str) -> None:
    with pytest.raises(PassError, match=step.name) as caught:
        run_pipeline(_program(BASE), (step,))
    assert caught.value.code == code
