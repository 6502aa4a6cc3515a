"""`lower-collectives`: text in, text out, and why a collective, or the storage of its operand, is refused."""

from __future__ import annotations

import logging

import pytest

from wrapper_ir import ir, parse_program, print_program
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.collectives.collective_forms import Form
from wrapper_ir_passes.collectives.lower_collectives import LowerCollectives

HEAD = """wir 0.5
target DEVICE

symbol s0 : int backed [2, 64] hint 8

extern "_c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)
extern "_c10d_functional::all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor" tags(collective)
extern "_c10d_functional::broadcast(Tensor input, int src, str group_name) -> Tensor" tags(collective)
extern "aten::mm(Tensor self, Tensor mat2) -> Tensor"
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"
extern "lib::keep(Tensor self) -> Tensor" tags(may_alias)

"""
REDUCE = '  %h = collective _c10d_functional::all_reduce_(%a, "sum", "0") group("0") : f32[8, 8]\n  %s = wait %h : f32[8, 8]\n'
MATMUL = "  %a = alloc f32[8, 8]\n  call aten::mm.out(%x, %w, out=%a)\n"


def _program(body: str, device: str = 'cuda:0 arch "sm_90"', result: str = "%s") -> ir.Program:
    head = HEAD.replace("DEVICE", device)
    return parse_program(f"{head}func @main(%x: f32[8, 8], %w: f32[8, 8]) {{\n{body}  return {result}\n}}\n")


def _lowered(program: ir.Program, options: str = "") -> str:
    text = print_program(run_pipeline(program, f"derive-frees,lower-collectives{{{options}}}"))
    return text[text.index("func ") :]


def _why(program: ir.Program, **options: object) -> tuple[Form, str]:
    (choice,) = LowerCollectives(**options).choices(Analyses(program))  # type: ignore[arg-type]  # of any type
    return choice.form, choice.why


def test_the_operand_is_symmetric_and_the_sum_has_a_storage_of_its_own() -> None:
    """Names over the operand that are used later are recreated over the sum."""
    body = f"{MATMUL}  %v = view %a + 32 : f32[8]\n{REDUCE}  %c = alloc f32[8]\n  copy %c, %v\n"
    text = _lowered(_program(body, result="%s, %c"))
    id = text[text.index('symmetric("0", ') + len('symmetric("0", ') :].partition(")")[0]
    assert text == (
        f"""func @main(%x: f32[8, 8], %w: f32[8, 8]) {{
  %a.s = alloc_storage 256 symmetric("0", {id})
  %a = view %a.s : f32[8, 8]
  call aten::mm.out(%x, %w, out=%a)
  drop %x
  drop %w
  %v = view %a + 32 : f32[8]
  %h.out = alloc f32[8, 8]
  call symm_mem::one_shot_all_reduce_out(%a, "sum", "0", %h.out)
  free %a.s
  %h = view %h.out : f32[8, 8]
  %v.sum = view %h.out.s + 32 : f32[8]
  %s = view %h : f32[8, 8]
  %c = alloc f32[8]
  copy %c, %v.sum
  return %s, %c
}}
"""
    )


def test_an_input_is_copied() -> None:
    text = _lowered(_program(REDUCE.replace("%a", "%x")))
    assert "copy %x.symmetric, %x" in text
    assert 'call symm_mem::one_shot_all_reduce_out(%x.symmetric, "sum", "0", %x)' in text


@pytest.mark.parametrize(
    ("options", "operator"),
    [
        ("", "one_shot_all_reduce_out"),
        ("one-shot-all-reduce-threshold-bytes=255", "two_shot_all_reduce_out"),
        (
            "one-shot-all-reduce-threshold-bytes=0,two-shot-all-reduce-threshold-bytes=0",
            "_c10d_functional::all_reduce_",
        ),
        ("auto-select=false", "_c10d_functional::all_reduce_"),
        ("groups=1:2", "_c10d_functional::all_reduce_"),
        ("groups=1:0", "one_shot_all_reduce_out"),
    ],
)
def test_options(options: str, operator: str) -> None:
    assert operator in _lowered(_program(MATMUL + REDUCE), options)


@pytest.mark.parametrize("operator", ["all_gather_into_tensor(%x, ", 'reduce_scatter_tensor(%x, "sum", '])
def test_gathers_and_scatters_by_the_copy_engines(operator: str) -> None:
    rows = 16 if "gather" in operator else 4
    body = f'  %h = collective _c10d_functional::{operator}2, "0") group("0") : f32[{rows}, 8]\n  %s = wait %h : f32[{rows}, 8]\n'
    assert _why(_program(body), one_shot_reduce_scatter_threshold_bytes=0)[0] is Form.LIBRARY
    options = "one-shot-reduce-scatter-threshold-bytes=0,low-contention-threshold-bytes=256"
    text = _lowered(_program(body), options)
    assert (
        f"collective symm_mem::_low_contention_{operator.partition('_tensor')[0].removesuffix('_into')}"
        in text
    )
    assert "wait %h" in text


SCATTER = '  %h = collective _c10d_functional::reduce_scatter_tensor(%a, "sum", 2, "0") group("0") : f32[4, 8]\n  %s = wait %h : f32[4, 8]\n'


def test_a_share_of_a_sum_is_one_kernel() -> None:
    """Torch's kernel accepts tensors of one dimension."""
    text = _lowered(_program(MATMUL + SCATTER))
    id = text[text.index('symmetric("0", ') + len('symmetric("0", ') :].partition(")")[0]
    assert text == (
        f"""func @main(%x: f32[8, 8], %w: f32[8, 8]) {{
  %a.s = alloc_storage 256 symmetric("0", {id})
  %a = view %a.s : f32[8, 8]
  call aten::mm.out(%x, %w, out=%a)
  drop %x
  drop %w
  %h.out = alloc f32[4, 8]
  %a.flat = view %a : f32[64]
  %h.out.flat = view %h.out : f32[32]
  call symm_mem::reduce_scatter_out(%a.flat, "0", false, %h.out.flat)
  free %a.s
  %h = view %h.out : f32[4, 8]
  %s = view %h : f32[4, 8]
  return %s
}}
"""
    )


SCATTERED_BY_THE_LIBRARY = {
    "three processes": (
        SCATTER.replace('"sum", 2', '"sum", 3').replace("%a", "%x"),
        "no such kernel for 3 processes",
    ),
    "shares of half a load": (
        "  %a = view %x : f32[4]\n" + SCATTER.replace("f32[4, 8]", "f32[2]"),
        "16 bytes are not a multiple of 2 times 16",
    ),
    "large": (
        "  %a = alloc f32[1024, 257]\n  call aten::mm.out(%x, %w, out=%a)\n"
        + SCATTER.replace("f32[4, 8]", "f32[512, 257]"),
        "1052672 bytes are more than 1048576",
    ),
    "not a sum": (MATMUL + SCATTER.replace('"sum"', '"avg"'), "reduction 'avg' is not a sum"),
}


@pytest.mark.parametrize("case", SCATTERED_BY_THE_LIBRARY)
def test_a_share_that_stays_the_librarys(case: str) -> None:
    body, why = SCATTERED_BY_THE_LIBRARY[case]
    form, reason = _why(_program(body))
    assert (form, why in reason) == (Form.LIBRARY, True), reason


@pytest.mark.parametrize("collective", [REDUCE.replace("all_reduce_", "all_reduce"), SCATTER])
def test_what_is_read_later_is_not_given_to_a_kernel_that_writes_there(collective: str) -> None:
    body = f"{MATMUL}{collective}  %c = alloc f32[8, 8]\n  call aten::mm.out(%a, %w, out=%c)\n"
    lowering = LowerCollectives(one_shot_all_reduce_threshold_bytes=0)
    (choice,) = lowering.choices(Analyses(_program(body, result="%s, %c")))
    assert (choice.form.writes_operand, choice.storage) == (True, None)
    assert choice.why.startswith("over a copy: %a is used later, and the kernel writes there")


REFUSED = {
    "an operator that needs multicast": (
        '  %h = collective _c10d_functional::broadcast(%x, 0, "0") group("0") : f32[8, 8]\n  %s = wait %h : f32[8, 8]\n',
        "without multicast",
    ),
    "not a sum": (MATMUL + REDUCE.replace('"sum"', '"max"'), "reduction 'max' is not a sum"),
    "integers": (
        "  %a = alloc i32[8, 8]\n  copy %a, %x\n" + REDUCE.replace("f32", "i32"),
        "i32 is not summed there",
    ),
    "a size that a run knows": (
        "  define s0 = size(%x, 0)\n  %a = alloc f32[s0]\n  copy %a, 1.0\n".replace(
            "  copy %a, 1.0\n", "  %z = view %x : f32[1]\n  copy %a, %z\n"
        )
        + REDUCE.replace("f32[8, 8]", "f32[s0]"),
        "the size of %a, 4*s0, is known at run time only",
    ),
    "an odd number of bytes": (
        "  %a = alloc f32[3]\n  %z = view %x : f32[3]\n  copy %a, %z\n"
        + REDUCE.replace("f32[8, 8]", "f32[3]"),
        "12 bytes are not a multiple of 16",
    ),
    "strides": (
        "  %a.s = alloc_storage 256\n  %a = view %a.s : f32[8, 8]{1, 8}\n  copy %a, %x\n"
        + REDUCE.replace("f32[8, 8]", "f32[8, 8]{1, 8}"),
        "%a is not contiguous",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_collective_stays_the_librarys(case: str) -> None:
    body, why = REFUSED[case]
    form, reason = _why(_program(body))
    assert (form, why in reason) == (Form.LIBRARY, True), reason


COPIED = {
    "an input": (REDUCE.replace("%a", "%x"), "%x is an input"),
    "a result of an operator": (
        "  %a = call aten::mm(%x, %w) : f32[8, 8]\n" + REDUCE,
        "%a is the result of an operator",
    ),
    "a part": (
        "  %b = alloc f32[16, 8]\n  copy %b, %x\n  %a = view %b : f32[8, 8]\n".replace(
            "  copy %b, %x\n",
            "  %c = view %b + 256 : f32[8, 8]\n  copy %c, %x\n  %d = view %b : f32[8, 8]\n  copy %d, %x\n",
        )
        + REDUCE,
        "%a is a part of %b.s",
    ),
    "zeros": (
        "  %a.s = alloc_storage 256 zero(call)\n  %a = view %a.s : f32[8, 8]\n" + REDUCE,
        "begins with zeros",
    ),
    "what an operator may keep": (
        f"{MATMUL}  %k = call lib::keep(%a) : f32[8, 8]\n{REDUCE}",
        "lib::keep may keep %a",
    ),
    "two collectives": (
        MATMUL
        + REDUCE.replace("%h", "%h0").replace("%s", "%s0").replace("all_reduce_", "all_reduce")
        + REDUCE,
        "%a is in another collective",
    ),
}


@pytest.mark.parametrize("case", COPIED)
def test_a_storage_stays_what_it_is(case: str) -> None:
    body, why = COPIED[case]
    program = _program(body)
    choice = LowerCollectives().choices(Analyses(program))[-1]
    assert (choice.form, choice.storage) == (Form.ONE_SHOT, None)
    assert why in choice.why, choice.why
    assert "copy %a.symmetric" in _lowered(program) or "copy %x.symmetric" in _lowered(program)


def test_the_cpu_has_none() -> None:
    assert _why(_program(MATMUL + REDUCE, "cpu")) == (
        Form.LIBRARY,
        "%a lies on cpu, which has no memory of groups",
    )


def test_each_choice_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "wrapper_ir_passes.collectives.lower_collectives"):
        _lowered(_program(MATMUL + REDUCE))
    assert (
        "@main op 3 %h = all_reduce_ in group '0': symm_mem::one_shot_all_reduce_out, over %a.s itself"
        in caplog.text
    )


def _ids(program: ir.Program) -> list[int]:
    lowered = run_pipeline(program, "derive-frees,lower-collectives")
    types = [op.result.type for op in lowered.ops if isinstance(op, ir.AllocStorage)]
    return [t.space.alloc_id for t in types if t.is_symmetric]


def test_ids_follow_from_the_program_alone() -> None:
    """Equal on all devices of one program, and different for other programs and other buffers."""
    two = (
        MATMUL
        + REDUCE
        + (MATMUL + REDUCE)
        .replace("%x", "%s")
        .replace("%a", "%b")
        .replace("%h", "%k")
        .replace("  %s = wait", "  %t = wait")
    )
    first = _ids(_program(two, 'cuda:0 arch "sm_90"', "%t"))
    assert first == _ids(_program(two, 'cuda:3 arch "sm_90"', "%t"))
    assert len({*first}) == 2
    assert not {*first} & {*_ids(_program(MATMUL + REDUCE))}
    assert all(0 < id < 1 << 63 for id in first)


def test_storages_share_a_slot_when_planned() -> None:
    """Each call has a buffer at first; after planning, consecutive ones share their bytes."""
    body = "".join(
        (MATMUL + REDUCE).replace("%a", f"%a{n}").replace("%h", f"%h{n}").replace("  %s =", f"  %s{n} =")
        for n in range(4)
    )
    program = _program(body, result="%s0, %s1, %s2, %s3")

    def held(pipeline: str) -> int:
        types = [
            op.result.type for op in run_pipeline(program, pipeline).ops if isinstance(op, ir.AllocStorage)
        ]
        return sum(int(str(t.nbytes)) for t in types if t.is_symmetric)

    assert (held("derive-frees,lower-collectives"), held("derive-frees,lower-collectives,plan-memory")) == (
        1024,
        256,
    )
