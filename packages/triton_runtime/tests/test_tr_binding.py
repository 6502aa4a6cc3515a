"""Binds the arguments of a launch to the signature of Triton's compiler."""

from __future__ import annotations

import pytest
from packages.triton_runtime.tests.triton_texts import bound

from triton_runtime import KernelError, bind
from triton_runtime.binding import TRITON_TYPES
from wrapper_ir import ir

GRID = "\n  grid(1)"


def signature(kernel: ir.TritonKernel, config: int = 0) -> dict[str, str]:
    return dict(bind(kernel, kernel.configs[config]).signature)


def test_arguments_keep_the_functions_order_and_remember_their_own() -> None:
    kernel = bound(
        "write f16* out, i64 n, read bf16* x", "order(x, n, out)\n  configs({} warps(4) stages(1))" + GRID
    )
    binding = bind(kernel, kernel.configs[0])
    assert binding.signature == (("x", "*bf16"), ("n", "i64"), ("out", "*fp16"))
    assert [(a.name, a.position) for a in binding.arguments] == [("x", 2), ("n", 1), ("out", 0)]
    assert binding.constants == ()


def test_none_and_one_and_folded_values_are_constants() -> None:
    """A value that the caller would pass as None or 1 is never an argument of the compiled kernel."""
    kernel = bound(
        "read f32* x, i32 n",
        "order(x, bias, stride, n)\n  constants(bias = none, stride = 1)\n  configs({} warps(4) stages(1))"
        + GRID,
    )
    binding = bind(kernel, kernel.configs[0])
    assert binding.signature == (("x", "*fp32"), ("bias", "constexpr"), ("stride", "constexpr"), ("n", "i32"))
    assert binding.constants == (("bias", None), ("stride", 1))
    assert [a.name for a in binding.arguments] == ["x", "n"]


def test_constants_outside_the_config_and_of_every_kind() -> None:
    kernel = bound(
        "read f32* x",
        "order(x, xnumel, ACC, MODE, FLAG, EPS, XBLOCK)\n"
        '  constants(xnumel = 640, ACC = dtype(f32), MODE = "tf32", FLAG = true, EPS = 1e-05)\n'
        "  configs({XBLOCK = 64} warps(4) stages(1), {XBLOCK = 32} warps(1) stages(2))" + GRID,
    )
    expected = [("xnumel", 640), ("ACC", ir.DType.F32), ("MODE", "tf32"), ("FLAG", True), ("EPS", 1e-5)]
    for config, block in zip(kernel.configs, (64, 32), strict=True):
        binding = bind(kernel, config)
        assert list(binding.constants) == [*expected, ("XBLOCK", block)]
        assert {t for name, t in binding.signature if name != "x"} == {"constexpr"}


@pytest.mark.parametrize("dtype", [d for d in ir.DType if not d.is_complex])
def test_numbers_and_pointers_have_the_definitions_types(dtype: ir.DType) -> None:
    """The definition declares i32 or i64, fp32 or fp64; nothing is inferred from a value."""
    kernel = bound(
        f"read {dtype.value}* x, {dtype.value} n", "order(x, n)\n  configs({} warps(4) stages(1))" + GRID
    )
    assert signature(kernel) == {"x": f"*{TRITON_TYPES[dtype]}", "n": TRITON_TYPES[dtype]}


def test_triton_knows_every_type() -> None:
    from triton.language import str_to_ty

    for name in TRITON_TYPES.values():
        assert str_to_ty(name, None) is not None
        assert str_to_ty(f"*{name}", None).element_ty == str_to_ty(name, None)


def test_types_that_triton_lacks_are_refused() -> None:
    kernel = bound("read c64* z", "order(z)\n  configs({} warps(4) stages(1))" + GRID)
    with pytest.raises(KernelError, match="c64, which Triton does not have") as caught:
        bind(kernel, kernel.configs[0])
    assert caught.value.code == "TR103"


def test_divisibility_by_16_is_all_that_the_compiler_hears_of() -> None:
    kernel = bound(
        "read f32* a divisible(16), read f32* b divisible(8), i32 n divisible(32), i32 m divisible(24), "
        "i32 one",
        "order(m, n, one, b, a)\n  configs({} warps(4) stages(1))" + GRID,
    )
    binding = bind(kernel, kernel.configs[0])
    assert binding.divisible == (1, 4)
    assert binding.divisible == (1, 4)


def test_blocks_of_descriptors_come_from_the_config() -> None:
    kernel = bound(
        "read f16[] a block(BLOCK_M, 2*BLOCK_K), i32 n",
        "order(a, n, BLOCK_M, BLOCK_K)\n"
        "  configs({BLOCK_M = 64, BLOCK_K = 16} warps(4) stages(1), {BLOCK_M = 128, BLOCK_K = 32} "
        "warps(4) stages(1))" + GRID,
    )
    assert signature(kernel, 0)["a"] == "tensordesc<fp16[64, 32]>"
    assert signature(kernel, 1)["a"] == "tensordesc<fp16[128, 64]>"
    [argument, _] = bind(kernel, kernel.configs[1]).arguments
    assert (argument.kind, argument.block) == (ir.ParamKind.DESCRIPTOR, (128, 64))


def test_options_of_the_config_prevail() -> None:
    kernel = bound(
        "i32 n",
        "order(n)\n  configs({} warps(8) stages(3) options(maxnreg = 64))\n  grid(1)\n"
        "  options(maxnreg = 128, enable_fp_fusion = false)\n  cooperative",
    )
    assert dict(bind(kernel, kernel.configs[0]).options) == {
        "num_warps": 8,
        "num_stages": 3,
        "maxnreg": 64,
        "enable_fp_fusion": False,
        "launch_cooperative_grid": True,
    }


@pytest.mark.parametrize(
    ("params", "clauses", "message"),
    [
        ("i32 n", "order(n, M)\n  configs({} warps(4) stages(1))", "parameter 'M' of "),
        ("i32 n, i32 m", "order(n)\n  configs({} warps(4) stages(1))", "no parameter 'm'"),
        ("i32 n", "order(n)\n  constants(c = 1)\n  configs({} warps(4) stages(1))", "no parameter 'c'"),
        ("i32 n", "order(n)\n  configs({n = 1} warps(4) stages(1))", "'n' is given twice"),
        ("read f16[] a block(B)", "order(a)\n  configs({} warps(4) stages(1))", "'a' need B"),
    ],
)
def test_parameters_without_one_value_are_refused(params: str, clauses: str, message: str) -> None:
    kernel = bound(params, clauses + GRID)
    with pytest.raises(KernelError, match=message) as caught:
        bind(kernel, kernel.configs[0])
    assert caught.value.code == "TR102"
