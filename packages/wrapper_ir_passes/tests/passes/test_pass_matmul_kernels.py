"""`matmul-kernels`: text in, text out, which calls stay, and why."""

from __future__ import annotations

import logging

import pytest

from wrapper_ir import check, ir, parse_program, print_program
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.devices.matmul_configs import Extents, Plan, gpu_of, plan
from wrapper_ir_passes.devices.matmul_kernels import MatmulKernels
from wrapper_ir_passes.translation import compare

HEAD = """wir 0.5
target cuda:0 arch "sm_90"

symbol s0 : int backed [2, 64] hint 8

extern "aten::mm(Tensor self, Tensor mat2) -> Tensor"
extern "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"

"""


def _program(body: str) -> ir.Program:
    return parse_program(f"{HEAD}func @main({body}\n}}\n")


def _changed(body: str, passes: str = "matmul-kernels") -> ir.Program:
    program = run_pipeline(_program(body), passes)
    assert check(program) == ()
    assert parse_program(print_program(program)) == program
    return program


def _main(program: ir.Program) -> str:
    text = print_program(program)
    return text[text.index("func ") :]


def _kernels(program: ir.Program) -> list[ir.TritonKernel]:
    return [k for k in program.kernels if isinstance(k, ir.TritonKernel)]


LAYERS = """%x: bf16[64, 128], %w: bf16[128, 128]{1, 128}, %b: bf16[128]) {
  %x.a = ensure_aligned %x, 16
  drop %x
  %w.a = ensure_aligned %w, 16
  drop %w
  %y = alloc bf16[64, 128]
  call aten::addmm.out(%b, %x.a, %w.a, out=%y)
  drop %x.a
  %z = call aten::mm(%y, %w.a) : bf16[64, 128]
  free %y
  %v = alloc bf16[64, 128]
  call aten::addmm.out(%b, %z, %w.a, out=%v)
  free %z
  drop %w.a
  drop %b
  return %v"""


def test_layers_share_a_kernel() -> None:
    """Results of operators become storages of the program, and declared operators go."""
    program = _changed(LAYERS)
    launches = [line.strip() for line in _main(program).splitlines() if "launch" in line]
    assert launches == [
        "launch @matmul_0(%x.a, %w.a, %b, %y) grid(1)",
        "launch @matmul_1(%y, %w.a, %z) grid(1)",
        "launch @matmul_0(%z, %w.a, %b, %v) grid(1)",
    ]
    assert program.externs == ()
    first, second = _kernels(program)
    assert [(p.name, p.divisible) for p in first.params] == [
        ("first", 16),
        ("second", 16),
        ("bias", 1),
        ("out", 16),
    ]
    constants = dict(first.constants)
    assert (constants["rows"], constants["second_row"], constants["BIAS"], constants["SPLITS"]) == (
        64,
        1,
        True,
        1,
    )
    assert dict(second.constants)["BIAS"] is False


def test_symbolic_rows_are_arguments() -> None:
    body = """%x: f32[s0, 48], %w: f32[48, 24]) {
  define s0 = size(%x, 0)
  %y = call aten::mm(%x, %w) : f32[s0, 24]
  drop %x
  drop %w
  return %y"""
    program = _changed(body)
    assert "launch @matmul_0(%x, %w, %y, s0) grid(1)" in _main(program)
    [kernel] = _kernels(program)
    assert dict(kernel.configs[0].meta)["EVEN_M"] is False


def test_one_row_has_a_kernel_for_vectors() -> None:
    body = """%x: bf16[1, 768], %w: bf16[768, 768]) {
  %y = call aten::mm(%x, %w) : bf16[1, 768]
  drop %x
  drop %w
  return %y"""
    assert [kernel.entry for kernel in _kernels(_changed(body))] == ["vector_matmul"]
    assert _changed(body, "matmul-kernels{rows=1}") == _changed(body)


CALL = """%x: {x}, %w: {w}, %b: {b}) {{
  %y = alloc {y}
  call aten::addmm.out(%b, %x, %w{more}, out=%y)
  drop %x
  drop %w
  drop %b
  return %y"""
SAME = {"x": "f32[64, 32]", "w": "f32[32, 16]", "b": "f32[16]", "y": "f32[64, 16]", "more": ""}
STAYS = {
    "element type": (
        {"x": "f64[64, 32]", "w": "f64[32, 16]", "b": "f64[16]", "y": "f64[64, 16]"},
        "its element type is f64",
    ),
    "rows": ({}, "it has more than 16 rows"),
}


@pytest.mark.parametrize("case", STAYS)
def test_calls_that_stay_say_why(case: str, caplog: pytest.LogCaptureFixture) -> None:
    changes, reason = STAYS[case]
    program = _program(CALL.format(**(SAME | changes)))
    with caplog.at_level(logging.INFO, "wrapper_ir_passes"):
        assert run_pipeline(program, "matmul-kernels{rows=16}") is program
    assert caplog.messages[0].endswith(f"@main calls aten::addmm.out: {reason}")


@pytest.mark.parametrize(("device", "arch"), [("cpu", ""), ("cuda:0", ' arch "gfx942"')])
def test_other_devices(device: str, arch: str) -> None:
    text = f"{HEAD}func @main({CALL.format(**SAME)}\n}}\n"
    program = parse_program(text.replace('target cuda:0 arch "sm_90"', f"target {device}{arch}"))
    assert run_pipeline(program, "matmul-kernels") is program


def test_the_comparison() -> None:
    program = _program(LAYERS)
    changed = MatmulKernels().run(program)
    assert compare(*MatmulKernels().comparable(program, changed)) is None
    assert MatmulKernels().run(changed) is changed


# --- the model of the device


def _plan(
    rows: int, depth: int, columns: int, *, is_deep: bool = False, itemsize: int = 2, arch: str = "sm_90"
) -> Plan:
    extents = Extents(
        batch=1,
        rows=rows,
        columns=columns,
        depth=depth,
        fixed_rows=rows,
        fixed_columns=columns,
        fixed_depth=depth,
        itemsize=itemsize,
        is_deep=is_deep,
    )
    return plan(extents, gpu_of(arch))


def _blocks(chosen: Plan) -> tuple[int, ...]:
    meta = chosen.configs[0].meta
    return tuple(int(value) for name, value in meta if name.startswith("BLOCK") and isinstance(value, int))


def test_small_products_have_small_blocks_and_large_ones_large_blocks() -> None:
    areas = [
        _blocks(_plan(rows, 1024, 1024))[0] * _blocks(_plan(rows, 1024, 1024))[1] for rows in (16, 128, 4096)
    ]
    assert areas == sorted(areas)
    assert areas[0] < areas[2]
    assert _blocks(_plan(4096, 4096, 4096))[:2] == (128, 256)


def test_long_sums_of_few_blocks_are_split() -> None:
    assert _plan(64, 3072, 768).splits > 1
    assert [_plan(64, 768, 3072).splits, _plan(2048, 2048, 2048).splits, _plan(1, 2048, 16384).splits] == [
        1,
        1,
        1,
    ]


def test_vectors_follow_the_layout_of_the_weight() -> None:
    deep, flat = _blocks(_plan(1, 2048, 2048, is_deep=True)), _blocks(_plan(1, 2048, 2048))
    assert deep[0] < 16 <= flat[0]
    assert deep[1] >= 256


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90", "sm_90a", "sm_100"])
@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("rows", [0, 1, 7, 64, 1000])
def test_every_size_has_configs_that_fit(rows: int, itemsize: int, arch: str) -> None:
    for depth, columns, is_deep in (
        (1, 1, False),
        (8, 16, True),
        (70, 33, False),
        (4096, 50257, True),
        (0, 8, False),
    ):
        chosen = _plan(rows, depth, columns, is_deep=is_deep, itemsize=itemsize, arch=arch)
        assert chosen.configs
        assert chosen.is_vector is (rows == 1)
        for config in chosen.configs:
            sizes = {name: int(str(value)) for name, value in config.meta if name.startswith("BLOCK")}
            if not chosen.is_vector:
                nbytes = (
                    (sizes["BLOCK_M"] + sizes["BLOCK_N"]) * sizes["BLOCK_K"] * config.num_stages * itemsize
                )
                assert nbytes <= gpu_of(arch).shared_bytes
