"""Roots of values and effects of calls in the alias analysis."""

from __future__ import annotations

from wrapper_ir import ir, parse_program
from wrapper_ir.analysis.aliasing import Aliasing
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir_passes.cleanup.derive_frees import derive_frees

HEAD = """wir 0.5
target cpu

const %w : f32[8]
mutable const %state : f32[8]
extern "aten::relu(Tensor self) -> Tensor"
extern "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)" tags(may_alias)
extern "aten::split(Tensor(a -> *) self, SymInt n) -> Tensor(a)[]"
extern "aten::pair(Tensor(a!) self) -> (Tensor(a!), Tensor)"
extern "aten::nested(Tensor self) -> (Tensor[], Tensor)"
extern "aten::bernoulli(Tensor self) -> Tensor" tags(random)
kernel cpp @k entry "k" (read f32* src, write f32* dst) {{{
}}}

"""


def _program(text: str) -> ir.Program:
    return derive_frees(parse_program(HEAD + text))


def _roots(program: ir.Program) -> tuple[dict[str, tuple[str, ...]], Aliasing]:
    aliasing = Analyses(program).aliasing(program.main)
    return {v.name: tuple(r.name for r in roots) for v, roots in aliasing.roots.items()}, aliasing


def _effects(program: ir.Program, result: str) -> ir.Effects:
    op = next(op for op in program.main.body if result in {v.name for v in ir.results(op)})
    return Analyses(program).effects(op)


def _names(values: tuple[ir.Value, ...]) -> list[str]:
    return [v.name for v in values]


BRANCHES = """
func @fresh(%x: f32[8], %y: f32[8]) {
  %r = call aten::relu(%x) : f32[8]
  return %r
}
func @first(%x: f32[8], %y: f32[8]) {
  %v = view %x : f32[8]
  return %v
}
func @weight(%x: f32[8], %y: f32[8]) {
  launch @k(%x, %y)
  return %w
}
"""


def test_a_conditional_whose_branches_make_their_results_is_fresh() -> None:
    program = _program(
        "func @main(%p: bool[], %x: f32[8], %y: f32[8]) {\n"
        "  %r = cond %p then @fresh else @fresh (%x, %y) : f32[8]\n  return %r\n}\n" + BRANCHES
    )
    effects = _effects(program, "r")
    assert (_names(effects.fresh), effects.aliases, effects.may_alias) == (["r"], (), ())
    assert _names(effects.reads) == ["p", "x"]
    assert effects.writes == ()


def test_branches_that_return_different_things_give_a_result_that_may_alias_any_of_them() -> None:
    program = _program(
        "func @main(%p: bool[], %x: f32[8], %y: f32[8]) {\n"
        "  %r = cond %p then @first else @weight (%x, %y) : f32[8]\n  assert_finite %r\n  return\n}\n"
        + BRANCHES
    )
    effects = _effects(program, "r")
    assert _names(effects.fresh) == []
    assert [(a.name, b.name) for a, b in effects.may_alias] == [("r", "x"), ("r", "w")]
    assert _names(effects.writes) == ["y"]
    roots, aliasing = _roots(program)
    assert set(roots["r"]) == {"r", "x", "w"}
    assert {v.name for v in aliasing.uncertain} == {"r"}


def test_a_call_that_returns_its_argument_is_that_argument() -> None:
    program = _program(
        "func @main(%x: f32[8], %y: f32[8]) {\n"
        "  %r = call_subgraph @first(%x, %y) : f32[8]\n  assert_finite %r\n  return\n}\n" + BRANCHES
    )
    assert _roots(program)[0]["r"] == ("x",)


def test_two_returns_of_one_storage_are_one_storage_for_the_caller() -> None:
    program = _program(
        """func @main(%x: f32[8]) {
  %a, %b = call_subgraph @two(%x) : f32[8], f32[4]
  assert_finite %b
  return %a
}
func @two(%x: f32[8]) {
  %r = call aten::relu(%x) : f32[8]
  %v = view %r : f32[4]
  return %r, %v
}
"""
    )
    roots, aliasing = _roots(program)
    assert roots["b"] == ("a",)
    assert [v.name for v in aliasing.owned] == ["a"]


def test_a_storage_that_is_moved_in_and_returned_is_the_callers_again() -> None:
    program = _program(
        """func @main(%x: owned f32[8]) {
  %a = call_subgraph @same(%x) : f32[8]
  return %a
}
func @same(%x: owned f32[8]) {
  return %x
}
"""
    )
    effects = _effects(program, "a")
    assert (_names(effects.moves), _names(effects.fresh)) == (["x"], ["a"])


def test_state_that_a_callee_reads_and_writes_is_read_and_written_by_the_call() -> None:
    program = _program(
        """func @main(%x: f32[8]) {
  call_subgraph @step(%x)
  return
}
func @step(%x: f32[8]) {
  %r = call aten::bernoulli(%state) : f32[8]
  launch @k(%x, %state)
  return
}
"""
    )
    summary = Analyses(program).summary("step")
    assert _names(summary.read_constants) == ["state"]
    assert _names(summary.written_constants) == ["state"]
    assert (set(summary.read_params), set(summary.written_params)) == ({0}, set())
    assert summary.classes == (ir.EffectClass.RANDOM,)


def test_elements_of_nested_results() -> None:
    program = _program(
        """func @main(%x: owned f32[8]) {
  %s = call aten::split(%x, 4) : results
  %half = unpack %s[0] : f32[4]
  %p = call aten::pair(%x) : results
  %same = unpack %p[0] : f32[8]
  %other = unpack %p[1] : f32[8]
  %n = call aten::nested(%x) : results
  %list = unpack %n[0] : results
  %a = unpack %list[1] : f32[8]
  %b = unpack %n[0][1] : f32[8]
  debug names %half, %same, %other, %a, %b
  return
}
"""
    )
    roots, aliasing = _roots(program)
    uncertain = {v.name for v in aliasing.uncertain}
    assert {"half", "same"} <= uncertain
    assert {"x"} < set(roots["half"])
    assert roots["other"] == ("other",)
    assert roots["a"] == roots["b"] == ("a",)
    assert {v.name for v in aliasing.owned} == {"x", "other", "a"}


def test_set_storage_lets_both_storages_go() -> None:
    program = _program(
        """func @main(%x: f32[8], %y: f32[8]) {
  %r = call aten::relu(%y) : f32[8]
  set_storage %x, %r
  return
}
"""
    )
    _, aliasing = _roots(program)
    assert {v.name for v in aliasing.escaped} == {"x", "r"}
