"""`attention-kernels`: text in, text out, which calls stay, and why."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from wrapper_ir import check, ir, parse_program, print_program
from wrapper_ir.artifact import bare_artifact
from wrapper_ir_passes import run_pipeline
from wrapper_ir_passes.devices.attention_configs import Extents, configs, split_count
from wrapper_ir_passes.devices.attention_kernels import AttentionKernels
from wrapper_ir_passes.pipeline import run_on_artifact
from wrapper_ir_passes.translation import compare

HEAD = """wir 0.5
target cuda:0 arch "sm_90"

symbol s0 : int backed [2, 64] hint 8
symbol s1 : int backed [2, 64] hint 8

extern "aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)" tags(random)
extern "aten::_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)" tags(random)

"""
EFFICIENT, FLASH = (f"aten::_scaled_dot_product_{kind}_attention" for kind in ("efficient", "flash"))


def _program(body: str) -> ir.Program:
    return parse_program(f"{HEAD}func @main({body}\n}}\n")


def _changed(body: str) -> ir.Program:
    program = run_pipeline(_program(body), "attention-kernels")
    assert check(program) == ()
    assert parse_program(print_program(program)) == program
    return program


def _main(program: ir.Program) -> str:
    text = print_program(program)
    return text[text.index("func ") :]


def _kernels(program: ir.Program) -> list[ir.TritonKernel]:
    return [k for k in program.kernels if isinstance(k, ir.TritonKernel)]


LAYERS = """%q: bf16[1, 4, 8, 32], %x: bf16[1, 4, 8, 32], %m: bf16[1, 1, 8, 8]) {
  %q.a = ensure_aligned %q, 16
  drop %q
  %x.a = ensure_aligned %x, 16
  drop %x
  %t = call aten::_scaled_dot_product_efficient_attention(%q.a, %x.a, %x.a, %m, false, scale=0.5) : results
  drop %q.a
  %y = unpack %t[0] : bf16[1, 4, 8, 32]{1024, 32, 128, 1}
  drop %t
  assert_layout %y [1, 4, 8, 32] [1024, 32, 128, 1] align(16) "attention"
  %y.v = view %y : bf16[1, 4, 8, 32]
  %u = call aten::_scaled_dot_product_efficient_attention(%y.v, %x.a, %x.a, %m, false, scale=0.5) : results
  free %y
  drop %x.a
  drop %m
  %z = unpack %u[0] : bf16[1, 4, 8, 32]{1024, 32, 128, 1}
  drop %u
  return %z"""


def test_layers_share_a_kernel() -> None:
    """Results are storages of the program; checks of their layouts go, as do declared operators."""
    program = _changed(LAYERS)
    assert (
        _main(program)
        == """\
func @main(%q: bf16[1, 4, 8, 32], %x: bf16[1, 4, 8, 32], %m: bf16[1, 1, 8, 8]) {
  %q.a = ensure_aligned %q, 16
  drop %q
  %x.a = ensure_aligned %x, 16
  drop %x
  %y = alloc bf16[1, 4, 8, 32]{1024, 32, 128, 1}
  launch @attention_0(%q.a, %x.a, %x.a, %m, %y) grid(1)
  drop %q.a
  %y.v = view %y : bf16[1, 4, 8, 32]
  %z = alloc bf16[1, 4, 8, 32]{1024, 32, 128, 1}
  launch @attention_0(%y.v, %x.a, %x.a, %m, %z) grid(1)
  drop %m
  drop %x.a
  free %y.s
  return %z
}
"""
    )
    [kernel] = _kernels(program)
    assert [(p.name, p.divisible) for p in kernel.params] == [
        ("q", 16), ("k", 16), ("v", 16), ("mask", 1), ("out", 16),
    ]  # fmt: skip
    constants = dict(kernel.constants)
    assert (constants["mask_head"], constants["out_row"], constants["FACTOR"]) == (0, 128, 0.5)
    assert EFFICIENT not in {e.name for e in program.externs}


def test_no_address_is_taken_to_be_aligned_without_a_proof() -> None:
    body = LAYERS.replace("  %q.a = ensure_aligned %q, 16\n  drop %q\n", "").replace("%q.a", "%q")
    found = [{p.name: p.divisible for p in k.params} for k in _kernels(_changed(body))]
    assert [(each["q"], each["k"]) for each in found] == [(1, 16), (16, 16)]


def test_symbolic_sizes_are_arguments() -> None:
    body = """%q: f32[s0, 4, s1, 32], %k: f32[s0, 4, 64, 32]) {
  define s0 = size(%q, 0)
  define s1 = size(%q, 2)
  %t = call aten::_scaled_dot_product_efficient_attention(%q, %k, %k, none, false, 0.0, true) : results
  %y = unpack %t[0] : f32[s0, 4, s1, 32]{128*s1, 32, 128, 1}
  drop %q
  drop %k
  drop %t
  return %y"""
    program = _changed(body)
    assert "launch @attention_0(%q, %k, %k, %y, s1, 128*s1, 32*s1, 128*s1) grid(s0)" in _main(program)
    [kernel] = _kernels(program)
    found = [(p.name, p.dtype.value, p.divisible) for p in kernel.params[4:]]
    assert found == [
        ("rows", "i32", 1),
        ("q_batch", "i32", 16),
        ("q_head", "i32", 16),
        ("out_batch", "i32", 16),
    ]
    assert dict(kernel.constants)["WIDE"] is False


def test_long_keys_of_few_rows_are_split() -> None:
    body = """%q: bf16[1, 32, 1, 64], %k: bf16[1, 8, 4096, 64]) {
  %t = call aten::_scaled_dot_product_flash_attention(%q, %k, %k, 0.0, false) : results
  %y = unpack %t[0] : bf16[1, 32, 1, 64]
  drop %q
  drop %k
  drop %t
  return %y"""
    assert """\
  %y = alloc bf16[1, 32, 1, 64]
  %y.sums = alloc f32[32, 16, 64]
  %y.stats = alloc f32[32, 16, 2]
  launch @attention_0(%q, %k, %k, %y.sums, %y.stats) grid(1)
  drop %q
  drop %k
  launch @combine_1(%y.sums, %y.stats, %y) grid(1)
""" in _main(_changed(body))


def test_large_tensors_have_long_offsets() -> None:
    body = """%q: bf16[1, 1, 16, 64], %k: bf16[1, 1, 64, 64]{1, 1, 67108864, 1}) {
  %t = call aten::_scaled_dot_product_flash_attention(%q, %k, %k, 0.0, false) : results
  %y = unpack %t[0] : bf16[1, 1, 16, 64]
  drop %q
  drop %k
  drop %t
  return %y"""
    [kernel] = _kernels(_changed(body))
    assert dict(kernel.constants)["WIDE"] is True


CALL = """%q: {q}, %k: {k}, %m: f32[{m}]) {{
  %t = call aten::_scaled_dot_product_{kind}_attention({args}) : results
  %y = unpack %t[0] : {q}
{more}  drop %q
  drop %k
  drop %m
  drop %t
  return %y"""
SAME = {"q": "f32[2, 4, 8, 16]", "k": "f32[2, 4, 8, 16]", "m": "8, 8", "kind": "efficient", "more": ""}
PLAIN, MASKED = "%q, %k, %k, none, false", "%q, %k, %k, %m, false"
STAYS = {
    "dropout": ({"args": f"{PLAIN}, 0.5"}, "it has dropout"),
    "other results": (
        {"args": PLAIN, "more": "  %l = unpack %t[1] : f32[2, 4, 32]\n  free %l\n"},
        "the program reads other results than the first",
    ),
    "lengths": (
        {"args": "%q, %k, %k, 0.0, true", "kind": "flash", "k": "f32[2, 4, 9, 16]"},
        "it is causal with other lengths of query and key",
    ),
    "element type": ({"args": PLAIN, "q": "f64[2, 4, 8, 16]", "k": "f64[2, 4, 8, 16]"}, "its element type is f64"),
    "wide": (
        {"args": PLAIN, "q": "f32[2, 4, 8, 512]", "k": "f32[2, 4, 8, 512]"},
        "its heads are not 1 to 256 elements wide",
    ),
    "mask": ({"args": MASKED, "m": "2, 8"}, "its mask, scale or heads are known at run time only"),
    "heads": ({"args": PLAIN, "k": "f32[2, 3, 8, 16]"}, "its mask, scale or heads are known at run time only"),
    "batches": ({"args": PLAIN, "k": "f32[1, 4, 8, 16]"}, "sizes of its operands are not known to agree"),
    "padded": (
        {"args": PLAIN, "q": "f32[2, 4, 8, 16]{1024, 256, 32, 1}"},
        "its sizes are not known before the call, or its result is not dense",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STAYS)
def test_calls_that_stay_say_why(case: str, caplog: pytest.LogCaptureFixture) -> None:
    changes, reason = STAYS[case]
    program = _program(CALL.format(**(SAME | changes)))
    with caplog.at_level(logging.INFO, "wrapper_ir_passes"):
        assert run_pipeline(program, "attention-kernels") is program
    assert caplog.messages[0].endswith(f"for %t: {reason}")


@pytest.mark.parametrize(("device", "arch"), [("cpu", ""), ("cuda:0", ' arch "gfx942"')])
def test_other_devices(device: str, arch: str) -> None:
    text = f"{HEAD}func @main({CALL.format(**SAME, args=PLAIN)}\n}}\n"
    program = parse_program(text.replace('target cuda:0 arch "sm_90"', f"target {device}{arch}"))
    assert run_pipeline(program, "attention-kernels") is program


def test_masks_of_fewer_dimensions_and_truth_values() -> None:
    program = _changed(CALL.format(**SAME, args=MASKED))
    constants = dict(_kernels(program)[0].constants)
    assert [constants[f"mask_{dim}"] for dim in ("batch", "head", "row", "column")] == [0, 0, 8, 1]
    assert constants["MASK"] == 1
    text = CALL.format(**SAME, args=MASKED).replace("%m: f32", "%m: bool")
    assert dict(_kernels(_changed(text))[0].constants)["MASK"] == 2


def test_the_signature_names_random_states_that_are_drawn_from() -> None:
    artifact = bare_artifact(_program(LAYERS))
    states = (ir.RandomState(device=ir.Device("cuda", 0)),)
    signature = dataclasses.replace(artifact.signature, random=states)
    changed = run_on_artifact(dataclasses.replace(artifact, signature=signature), "attention-kernels")
    assert changed.signature.random == ()


def test_the_comparison() -> None:
    program = _program(LAYERS)
    changed = AttentionKernels().run(program)
    assert compare(*AttentionKernels().comparable(program, changed)) is None
    assert AttentionKernels().run(changed) is changed


def test_regions_of_their_own_memory_contain_attention() -> None:
    passes = "attention-kernels,cuda-graphs{own_memory=true}"
    assert "replayable" in print_program(run_pipeline(_program(LAYERS), passes))


def test_blocks_fill_the_device_and_fit_in_its_memory() -> None:
    def extents(heads: int, rows: int, depth: int = 64, itemsize: int = 2) -> Extents:
        return Extents(
            heads=heads,
            rows=rows,
            keys=4096,
            fixed_keys=100,
            depth=depth,
            value_depth=depth,
            itemsize=itemsize,
        )

    first = [dict(configs(extents(12, rows))[0].meta)["BLOCK_M"] for rows in (1, 64, 1024, 4096)]
    assert first == [16, 16, 64, 128]
    assert [split_count(extents(heads, 1)) for heads in (1, 8, 40, 64)] == [64, 16, 2, 1]
    for depth, itemsize in ((16, 2), (256, 2), (64, 4), (256, 4)):
        for config in configs(extents(12, 1024, depth, itemsize)):
            meta = dict(config.meta)
            rows, keys = int(str(meta["BLOCK_M"])), int(str(meta["BLOCK_N"]))
            assert (rows + 2 * keys * config.num_stages) * depth * itemsize <= 128 * 1024
            assert meta["EVEN"] is (100 % keys == 0)
