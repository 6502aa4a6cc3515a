"""`lower-collectives{fused-matmuls=true}`: text in, text out, and reasons against fusion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wrapper_ir import check, ir, parse_program, print_program
from wrapper_ir.analysis.groups import sharing_groups
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.collectives.collective_forms import Form
from wrapper_ir_passes.collectives.lower_collectives import LowerCollectives

HEAD = """wir 0.5
target DEVICE

symbol s0 : int backed [2, 64] hint 8

extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)
extern "_c10d_functional::all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor" tags(collective)
extern "aten::mm(Tensor self, Tensor mat2) -> Tensor"
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
extern "aten::relu(Tensor self) -> Tensor"
extern "aten::relu_(Tensor(a!) self) -> Tensor(a!)"

"""
GATHER = """  %h = collective _c10d_functional::all_gather_into_tensor(%x, 2, "0") group("0") : f32[16, 8]
  %g = wait %h : f32[16, 8]\n"""
SCATTER = """  %r = collective _c10d_functional::reduce_scatter_tensor(%p, "sum", 2, "0") group("0") : f32[4, 8]
  %s = wait %r : f32[4, 8]\n"""
MATMUL = "  %p = alloc f32[8, 8]\n  call aten::mm.out(%x, %w, out=%p)\n"


def _program(body: str, result: str, device: str = 'cuda:0 arch "sm_90"') -> ir.Program:
    head = HEAD.replace("DEVICE", device)
    return parse_program(
        f"{head}func @main(%x: f32[8, 8], %w: f32[8, 8], %v: f32[8, 4]) {{\n{body}  return {result}\n}}\n"
    )


UNFUSED = LowerCollectives(one_shot_reduce_scatter_threshold_bytes=0)  # all remain collectives of the library
FUSED = replace(UNFUSED, fused_matmuls=True)


def _fused(program: ir.Program, minimum: int = 0) -> ir.Program:
    result = run_pipeline(program, f"derive-frees,{replace(FUSED, fused_matmuls_minimum_bytes=minimum).spec}")
    assert not check(result)
    return result


def _text(program: ir.Program) -> str:
    text = print_program(program)
    return text[text.index("func ") :]


def _why(program: ir.Program, minimum: int = 0) -> list[tuple[Form, str]]:
    choices = replace(FUSED, fused_matmuls_minimum_bytes=minimum).choices(Analyses(program))
    return [(choice.form, choice.why) for choice in choices]


def test_matmuls_of_one_gather_are_computed_together() -> None:
    """The second factor is named later; only the matmuls use the gathered tensor."""
    body = f"""{GATHER}  %a = alloc f32[16, 8]
  call aten::mm.out(%g, %w, out=%a)
  %b = alloc f32[16, 8]
  %t = view %w : f32[8, 8]{{1, 8}}
  call aten::mm.out(%g, %t, out=%b)
  %c = reuse %a : f32[128]
  %d = call aten::relu(%c) : f32[128]
"""
    assert _text(_fused(_program(body, "%d, %b"))) == (
        """func @main(%x: f32[8, 8], %w: f32[8, 8], %v: f32[8, 4]) {
  drop %v
  %t = view %w : f32[8, 8]{1, 8}
  %h.matmuls = call symm_mem::fused_all_gather_matmul(%x, [%w, %t], 0, "0") : results
  drop %x
  drop %w
  drop %t
  %a.matmul = unpack %h.matmuls[1][0] : f32[16, 8]
  %b.matmul = unpack %h.matmuls[1][1] : f32[16, 8]
  drop %h.matmuls
  %c = reuse %a.matmul : f32[128]
  %d = call aten::relu(%c) : f32[128]
  free %a.matmul
  return %d, %b.matmul
}
"""
    )


def test_what_is_gathered_is_returned_where_others_need_it() -> None:
    """A reader, and a matmul with it as the right factor; the operator finishes before both."""
    body = f"""{GATHER}  %a = call aten::mm(%g, %w) : f32[16, 8]
  %b = call aten::relu(%g) : f32[16, 8]
  %t = view %g : f32[8, 16]{{1, 8}}
  %c = call aten::mm(%t, %b) : f32[8, 8]
"""
    assert _text(_fused(_program(body, "%a, %c"))) == (
        """func @main(%x: f32[8, 8], %w: f32[8, 8], %v: f32[8, 4]) {
  drop %v
  %h.matmuls = call symm_mem::fused_all_gather_matmul(%x, [%w], 0, "0") : results
  drop %x
  drop %w
  %h.rows = unpack %h.matmuls[0] : f32[16, 8]
  %h = view %h.rows : f32[16, 8]
  %a = unpack %h.matmuls[1][0] : f32[16, 8]
  drop %h.matmuls
  %g = view %h : f32[16, 8]
  %b = call aten::relu(%g) : f32[16, 8]
  %t = view %g : f32[8, 16]{1, 8}
  %c = call aten::mm(%t, %b) : f32[8, 8]
  free %h.rows
  free %b
  return %a, %c
}
"""
    )


def test_a_matmul_after_others_have_begun() -> None:
    """The second is needed after the first; the view of its factor is created again."""
    body = f"""{GATHER}  %a = call aten::mm(%g, %w) : f32[16, 8]
  %b = call aten::relu(%a) : f32[16, 8]
  %t = view %v : f32[8, 4]
  %o = alloc f32[16, 4]
  %u = view %o + 16 : f32[4]
  call aten::mm.out(%g, %t, out=%o)
  %c = call aten::relu(%u) : f32[4]
"""
    assert _text(_fused(_program(body, "%b, %c, %o"))) == (
        """func @main(%x: f32[8, 8], %w: f32[8, 8], %v: f32[8, 4]) {
  %t.early = view %v : f32[8, 4]
  %h.matmuls = call symm_mem::fused_all_gather_matmul(%x, [%w, %t.early], 0, "0") : results
  drop %x
  drop %w
  drop %t.early
  %a = unpack %h.matmuls[1][0] : f32[16, 8]
  %o.matmul = unpack %h.matmuls[1][1] : f32[16, 4]
  drop %h.matmuls
  %b = call aten::relu(%a) : f32[16, 8]
  free %a
  %t = view %v : f32[8, 4]
  drop %v
  drop %t
  %u.matmul = view %o.matmul + 16 : f32[4]
  %c = call aten::relu(%u.matmul) : f32[4]
  return %b, %c, %o.matmul
}
"""
    )


def test_the_operator_waits_for_factors_that_are_made_meanwhile() -> None:
    """It does not wait for another collective."""
    gather = GATHER.replace("  %g", "  %c = call aten::relu(%w) : f32[8, 8]\n  %g")
    body = f"""{gather}  %a = call aten::mm(%g, %c) : f32[16, 8]
  call aten::relu_(%x)
"""
    assert _text(_fused(_program(body, "%a"))) == (
        """func @main(%x: f32[8, 8], %w: f32[8, 8], %v: f32[8, 4]) {
  drop %v
  %c = call aten::relu(%w) : f32[8, 8]
  drop %w
  %h.matmuls = call symm_mem::fused_all_gather_matmul(%x, [%c], 0, "0") : results
  free %c
  %a = unpack %h.matmuls[1][0] : f32[16, 8]
  drop %h.matmuls
  call aten::relu_(%x)
  drop %x
  return %a
}
"""
    )


def test_a_matmul_that_goes_elsewhere_is_copied() -> None:
    body = f"""{GATHER}  %o = view %w : f32[16, 4]
  call aten::mm.out(%g, %v, out=%o)
"""
    assert _text(_fused(_program(body, "%o"))) == (
        """func @main(%x: f32[8, 8], %w: f32[8, 8], %v: f32[8, 4]) {
  %o = view %w : f32[16, 4]
  drop %w
  %h.matmuls = call symm_mem::fused_all_gather_matmul(%x, [%v], 0, "0") : results
  drop %x
  drop %v
  %o.matmul = unpack %h.matmuls[1][0] : f32[16, 4]
  drop %h.matmuls
  copy %o, %o.matmul
  free %o.matmul
  return %o
}
"""
    )


def test_gathers_of_more_dimensions() -> None:
    body = """  %y = view %x : f32[2, 4, 8]
  %h = collective _c10d_functional::all_gather_into_tensor(%y, 2, "0") group("0") : f32[4, 4, 8]
  %g = wait %h : f32[4, 4, 8]
  %m = view %g : f32[16, 8]
  %a = call aten::mm(%m, %w) : f32[16, 8]
"""
    assert _text(_fused(_program(body, "%a"))) == (
        """func @main(%x: f32[8, 8], %w: f32[8, 8], %v: f32[8, 4]) {
  drop %v
  %y = view %x : f32[2, 4, 8]
  drop %x
  %y.rows = view %y : f32[8, 8]
  drop %y
  %h.matmuls = call symm_mem::fused_all_gather_matmul(%y.rows, [%w], 0, "0") : results
  drop %w
  drop %y.rows
  %a = unpack %h.matmuls[1][0] : f32[16, 8]
  drop %h.matmuls
  return %a
}
"""
    )


def test_a_matmul_that_is_scattered() -> None:
    body = f"{MATMUL}{SCATTER}"
    assert _text(_fused(_program(body, "%s"))) == (
        """func @main(%x: f32[8, 8], %w: f32[8, 8], %v: f32[8, 4]) {
  drop %v
  %r.rows = call symm_mem::fused_matmul_reduce_scatter(%x, %w, "sum", 0, "0") : f32[4, 8]
  drop %x
  drop %w
  %r = view %r.rows : f32[4, 8]
  %s = view %r : f32[4, 8]
  return %s
}
"""
    )


def test_collectives_keep_their_order() -> None:
    """A matmul can be fused with one of two; the sum between them stays between them."""
    body = f"""{GATHER}  %p = call aten::mm(%g, %w) : f32[16, 8]
  %k = collective _c10d_functional::all_reduce_(%x, "sum", "1") group("1") : f32[8, 8]
  %l = wait %k : f32[8, 8]
  %q = call aten::mm(%l, %w) : f32[8, 8]
{SCATTER.replace("%p", "%q")}"""
    program = _program(body, "%p, %s")
    targets = [getattr(op, "target", "").rpartition("::")[2] for op in _fused(program).main.body]
    assert [t for t in targets if t] == [
        "fused_all_gather_matmul",
        "one_shot_all_reduce_out",
        "fused_matmul_reduce_scatter",
    ]


LATER = f"{GATHER}  %a = call aten::mm(%g, %w) : f32[16, 8]\n  %b = call aten::relu(%a) : f32[16, 8]\n"
IN_FLIGHT = """  %k = collective _c10d_functional::all_reduce_(%v, "sum", "0") group("0") : f32[8, 4]
"""
NOT_GATHERED = {
    "no matmul": (GATHER, "%g", "%h is not the left factor of a matmul"),
    "a part of it": (
        f"{GATHER}  %t = view %g : f32[8, 8]\n  %a = call aten::mm(%t, %w) : f32[8, 8]\n",
        "%a",
        "%h is not the left factor",
    ),
    "both factors": (
        f"{GATHER}  %t = view %g : f32[8, 16]\n  %a = call aten::mm(%t, %g) : f32[8, 8]\n",
        "%a",
        "%g is gathered, too",
    ),
    "rows of two processes": (
        f"{GATHER}  %t = view %g : f32[1, 128]\n  %z = view %w : f32[128, 2]{{0, 1}}\n  %a = call aten::mm(%t, %z) : f32[1, 2]\n",
        "%a",
        "1 rows of %t are not the same number from each of 2 processes",
    ),
    "a factor that comes of what is gathered": (
        f"{GATHER}  %f = call aten::relu(%g) : f32[16, 8]\n  %t = view %f : f32[8, 16]\n  %a = call aten::mm(%g, %t) : f32[16, 16]\n",
        "%a",
        "%t is ready only after %h is needed",
    ),
    "a factor that is changed meanwhile": (
        f"{GATHER}  %f = call aten::relu(%g) : f32[16, 8]\n  call aten::relu_(%w)\n  %a = call aten::mm(%g, %w) : f32[16, 8]\n",
        "%a",
        "%w is ready only after %h is needed",
    ),
    "what is gathered is changed": (
        f"{GATHER}  call aten::relu_(%g)\n  %a = call aten::mm(%g, %w) : f32[16, 8]\n",
        "%a",
        "%w is ready only after %h is needed",
    ),
    "another collective in flight": (
        f"{IN_FLIGHT}{GATHER}  %a = call aten::mm(%g, %w) : f32[16, 8]\n  %l = wait %k : f32[8, 4]\n",
        "%a, %l",
        "another collective is in flight",
    ),
}


@pytest.mark.parametrize("case", NOT_GATHERED)
def test_invalid_gather(case: str) -> None:
    body, result, why = NOT_GATHERED[case]
    program = _program(body, result)
    form, reason = next(choice for choice in _why(program) if "not fused" in choice[1])
    assert (form, why in reason) == (Form.LIBRARY, True), reason
    assert "fused" not in _text(_fused(program))


NOT_SCATTERED = {
    "no matmul": (
        f"  %p = call aten::relu(%x) : f32[8, 8]\n{SCATTER}",
        "%s",
        "%p is not the result of a matmul",
    ),
    "a matmul that is changed": (f"{MATMUL}  call aten::relu_(%p)\n{SCATTER}", "%s", "%p is not the result"),
    "a matmul that is read": (
        f"{MATMUL}{SCATTER}  %a = call aten::relu(%p) : f32[8, 8]\n",
        "%s, %a",
        "%p is used by op 5, too",
    ),
    "a matmul in an input": (
        f"  call aten::mm.out(%w, %w, out=%x)\n{SCATTER.replace('%p', '%x')}",
        "%s",
        "%x is not in memory of its own",
    ),
    "a factor that is changed": (
        f"{MATMUL}  call aten::relu_(%w)\n{SCATTER}",
        "%s",
        "a factor of %p is changed before",
    ),
    "the largest": (
        f"{MATMUL}{SCATTER.replace('sum', 'max')}",
        "%s",
        "reduction 'max' is neither a sum nor a mean",
    ),
    "rows of two processes": (
        "  %t = view %x : f32[1, 64]\n  %u = view %w : f32[64, 64]{0, 1}\n  %m = call aten::mm(%t, %u) : f32[1, 64]\n"
        f"  %p = view %m : f32[8, 8]\n{SCATTER}",
        "%s",
        "1 rows of %m are not the same number for each of 2 processes",
    ),
}


@pytest.mark.parametrize("case", NOT_SCATTERED)
def test_invalid_scatter(case: str) -> None:
    body, result, why = NOT_SCATTERED[case]
    program = _program(body, result)
    ((form, reason),) = _why(program)
    assert (form, why in reason) == (Form.LIBRARY, True), reason
    assert "fused" not in _text(_fused(program))


def test_a_matmul_of_a_matmul_is_not_computed_with_it() -> None:
    body = f"{LATER}  %t = view %a : f32[8, 16]\n  %c = call aten::mm(%g, %t) : f32[16, 16]\n"
    text = _text(_fused(_program(body, "%b, %c")))
    assert "fused_all_gather_matmul(%x, [%w], 0" in text
    assert "%c = call aten::mm(%g, %t)" in text


def test_a_matmul_between_two_collectives_goes_to_the_first() -> None:
    scatter = SCATTER.replace("f32[4, 8]", "f32[8, 8]").replace("%p", "%a")
    program = _program(f"{GATHER}  %a = call aten::mm(%g, %w) : f32[16, 8]\n{scatter}", "%s")
    (gather, _), (scatter_form, why) = _why(program)
    assert (gather, scatter_form) == (Form.GATHER_MATMULS, Form.LIBRARY)
    assert "%a is not the result of a matmul" in why


@pytest.mark.parametrize(("minimum", "fused"), [(256, True), (257, False)])
def test_small_ones_are_left(minimum: int, fused: bool) -> None:
    program = _program(MATMUL + SCATTER, "%s")
    ((form, why),) = _why(program, minimum)
    assert (form is Form.MATMUL_SCATTER, "256 bytes are fewer than 257" in why) == (fused, not fused)
    assert ("fused_matmul_reduce_scatter" in _text(_fused(program, minimum))) == fused


def test_off_unless_asked_for() -> None:
    """The log reports the effect of the option."""
    program = _program(MATMUL + SCATTER, "%s")
    lowered = run_pipeline(program, f"derive-frees,{UNFUSED.spec}")
    assert _text(lowered) == _text(run_pipeline(program, "derive-frees"))
    (choice,) = LowerCollectives(fused_matmuls_minimum_bytes=0).choices(Analyses(program))
    assert str(choice).endswith(
        "option fused-matmuls is off, which would fuse it with the matmul %p, which nothing else reads"
    )


def test_what_is_said_of_the_operators() -> None:
    """Graphs must not keep this memory, which torch may release; processes that share it are compared."""
    program = _program(MATMUL + SCATTER, "%s")
    result = _fused(program)
    (extern,) = (e for e in result.externs if "fused" in e.name)
    assert [tag.value for tag in extern.tags] == ["collective", "python_only"]
    assert (sharing_groups(program), sharing_groups(result)) == ((), ("0",))
