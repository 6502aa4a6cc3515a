"""`register-buffers`: text in, text out, and why a buffer of a collective is not registered."""

from __future__ import annotations

import logging

import pytest

from wrapper_ir import ir, parse_program, print_program
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.collectives.register_buffers import RegisterBuffers
from wrapper_ir_passes.collectives.registration_candidates import registration_totals

HEAD = """wir 0.5
target DEVICE

symbol s0 : int backed [2, 64] hint 8

extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)
extern "_c10d_functional::all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::broadcast(Tensor input, int src, str group_name) -> Tensor" tags(collective)
extern "symm_mem::_low_contention_all_gather(Tensor tensor, str group_name) -> Tensor" tags(collective)
extern "aten::mm(Tensor self, Tensor mat2) -> Tensor"
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
extern "lib::keep(Tensor self) -> Tensor" tags(may_alias)
const %c : f32[8, 8]

"""
MATMUL = "  %a = alloc f32[8, 8]\n  call aten::mm.out(%x, %w, out=%a)\n"
REDUCE = '  %h = collective _c10d_functional::all_reduce_(%a, "sum", "0") group("0") : f32[8, 8]\n  %s = wait %h : f32[8, 8]\n'
GATHER = '  %g = collective _c10d_functional::all_gather_into_tensor(%s, 2, "0") group("0") : f32[16, 8]\n  %t = wait %g : f32[16, 8]\n'
OUT = "  %y = alloc f32[16, 8]\n  copy %y, %t\n"
SMALL = "  %y = alloc f32[8, 8]\n  copy %y, %s\n"


def _program(body: str, device: str = 'cuda:0 arch "sm_90"', result: str = "%y") -> ir.Program:
    head = HEAD.replace("DEVICE", device)
    return parse_program(f"{head}func @main(%x: f32[8, 8], %w: f32[8, 8]) {{\n{body}  return {result}\n}}\n")


def _text(program: ir.Program, pipeline: str = "derive-frees,register-buffers") -> str:
    text = print_program(run_pipeline(program, pipeline))
    return text[text.index("func ") :]


def _buffers(program: ir.Program, **options: object) -> dict[str, str]:
    """The log's text about each buffer, by name."""
    choices = RegisterBuffers(**options).choices(Analyses(program))  # type: ignore[arg-type]  # of any type
    return {b.value.name: b.why for c in choices for b in c.buffers}


def test_operand_and_result_are_registered_and_the_operators_stay() -> None:
    text = _text(_program(MATMUL + REDUCE + GATHER + OUT))
    first, second = (part.partition(")")[0] for part in text.split('registered("0", ')[1:])
    assert int(second) == int(first) + 1
    assert text == (
        f"""func @main(%x: f32[8, 8], %w: f32[8, 8]) {{
  %a.s = alloc_storage 256 registered("0", {first})
  %a = view %a.s : f32[8, 8]
  call aten::mm.out(%x, %w, out=%a)
  drop %x
  drop %w
  %h = collective _c10d_functional::all_reduce_(%a, "sum", "0") group("0") : f32[8, 8]
  %s = wait %h : f32[8, 8]
  %g.out.s = alloc_storage 512 registered("0", {second})
  %g.out = view %g.out.s : f32[16, 8]
  %g = collective _c10d_functional::all_gather_into_tensor_out(%s, 2, "0", out=%g.out) group("0") : f32[16, 8]
  %t = wait %g : f32[16, 8]
  free %a.s
  %y = alloc f32[16, 8]
  copy %y, %t
  free %g.out.s
  return %y
}}
"""
    )


def test_copies_are_counted() -> None:
    """A sum in place reads and writes its buffer; the gather reads one and writes another."""
    program = _program(MATMUL + REDUCE + GATHER + OUT)
    registered = run_pipeline(program, "derive-frees,register-buffers")
    totals = [registration_totals(RegisterBuffers().choices(Analyses(p))) for p in (program, registered)]
    assert totals == [
        "0 of 3 buffers, 0 of 1024 bytes, 0 of 4 copies avoided",
        "3 of 3 buffers, 1024 of 1024 bytes, 4 of 4 copies avoided",
    ]


def test_planned_buffers_share_one_id_and_stay_registered() -> None:
    body = "".join(
        (MATMUL + REDUCE + f"  %y{n} = alloc f32[8, 8]\n  copy %y{n}, %s\n")
        .replace("%a", f"%a{n}")
        .replace("%h", f"%h{n}")
        .replace("%s", f"%s{n}")
        for n in range(3)
    )
    planned = run_pipeline(
        _program(body, result="%y0, %y1, %y2"), "derive-frees,register-buffers,plan-memory"
    )
    types = [op.result.type for op in planned.ops if isinstance(op, ir.AllocStorage)]
    assert [str(t.nbytes) for t in types if t.space.kind is ir.MemoryKind.REGISTERED] == ["256"]
    choices = RegisterBuffers().choices(Analyses(planned))
    assert registration_totals(choices) == "3 of 3 buffers, 768 of 768 bytes, 6 of 6 copies avoided"


def test_a_scatter_gets_a_result_of_the_programs() -> None:
    body = '  %g = collective _c10d_functional::reduce_scatter_tensor(%x, "sum", 2, "0") group("0") : f32[4, 8]\n  %t = wait %g : f32[4, 8]\n'
    text = _text(_program(body + OUT.replace("16", "4")))
    assert 'reduce_scatter_tensor_out(%x, "sum", 2, "0", out=%g.out)' in text


REFUSED = {
    "an input": (REDUCE.replace("%a", "%x"), "%x", "is an input"),
    "a constant": (GATHER.replace("%s", "%c") + OUT, "%c", "is a constant"),
    "a result of an operator": (
        "  %a = call aten::mm(%x, %w) : f32[8, 8]\n" + REDUCE + SMALL,
        "%a",
        "is the result of an operator",
    ),
    "an output": (MATMUL + REDUCE + "  %y = view %s : f32[8, 8]\n", "%a", "%y is an output"),
    "an output of the collective's own": (
        GATHER.replace("%s", "%x") + "  %y = view %t : f32[16, 8]\n",
        "%g",
        "%y is an output",
    ),
    "no variant with an output": (
        '  %h = collective _c10d_functional::broadcast(%x, 0, "0") group("0") : f32[8, 8]\n  %s = wait %h : f32[8, 8]\n'
        + SMALL,
        "%h",
        "the operator allocates it",
    ),
    "what an operator may keep": (
        f"{MATMUL}  %k = call lib::keep(%a) : f32[8, 8]\n{REDUCE}{SMALL}",
        "%a",
        "lib::keep may keep %a",
    ),
    "zeros": (
        "  %a.s = alloc_storage 256 zero(call)\n  %a = view %a.s : f32[8, 8]\n" + REDUCE + SMALL,
        "%a",
        "begins with zeros",
    ),
    "symmetric memory": (
        '  %a.s = alloc_storage 256 symmetric("0", 1)\n  %a = view %a.s : f32[8, 8]\n  copy %a, %x\n'
        + REDUCE
        + SMALL,
        "%a",
        "lies in symmetric memory",
    ),
    "a size that a run knows": (
        "  define s0 = size(%x, 0)\n  %a = alloc f32[s0, 8]\n  copy %a, %x\n"
        + (REDUCE + SMALL).replace("f32[8, 8]", "f32[s0, 8]"),
        "%a",
        "known at run time only",
    ),
    "another group": (
        MATMUL + REDUCE + GATHER.replace('"0"', '"1"') + OUT,
        "%s",
        "is registered with group '0'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_buffer_stays_where_it_is(case: str) -> None:
    body, name, why = REFUSED[case]
    program = _program(body, result="%s" if "%y =" not in body else "%y")
    assert why in _buffers(program)[name[1:]]
    text = _text(program)
    if case != "another group":
        assert f"{name}.s = alloc_storage" not in text or "registered" not in text


def test_options() -> None:
    program = _program(MATMUL + REDUCE + GATHER + OUT)
    assert _buffers(program, threshold_bytes=512) == {
        "a": "is not registered: %a has 256 bytes, fewer than 512",
        "s": "is not registered: %s has 256 bytes, fewer than 512",
        "g": "can be registered",
    }
    assert {*_buffers(program, groups="1:2").values()} == {
        "is not registered: option groups leaves group '0' out"
    }
    assert "registered" not in _text(program, "derive-frees,register-buffers{groups=1}")
    assert _text(program, "derive-frees,register-buffers{threshold-bytes=512}").count("registered") == 1


def test_the_cpu_has_none() -> None:
    buffers = _buffers(_program(MATMUL + REDUCE + SMALL, "cpu"))
    assert buffers == {"a": "is not registered: %a lies on cpu, which has no memory of groups"}


def test_collectives_over_symmetric_memory_are_not_the_librarys() -> None:
    body = '  %g = collective symm_mem::_low_contention_all_gather(%x, "0") group("0") : f32[16, 8]\n  %t = wait %g : f32[16, 8]\n'
    assert _buffers(_program(body + OUT)) == {}


def test_each_buffer_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "wrapper_ir_passes.collectives.register_buffers"):
        _text(_program(MATMUL + REDUCE + SMALL))
    assert "@main op 3 all_reduce_ in group '0': %a of 256 bytes can be registered" in caplog.text


def test_ids_follow_from_the_program_alone() -> None:
    """Equal on all devices, and different after `lower-collectives`, for the remaining collectives of the
    library."""

    def ids(body: str, device: str = "cuda:0", pipeline: str = "register-buffers") -> list[int]:
        program = run_pipeline(_program(body, f'{device} arch "sm_90"'), f"derive-frees,{pipeline}")
        return [op.result.type.space.alloc_id for op in program.ops if isinstance(op, ir.AllocStorage)][:-1]

    body = MATMUL + REDUCE + GATHER + OUT
    assert ids(body) == ids(body, "cuda:3")
    assert not {*ids(body)} & {*ids(MATMUL + REDUCE + SMALL)}
    symmetric, *rest = ids(body, pipeline="lower-collectives,register-buffers")
    assert len({symmetric, *rest}) == len([symmetric, *rest])
