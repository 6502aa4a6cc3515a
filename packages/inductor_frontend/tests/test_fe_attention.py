"""Attention captured for a GPU that is not here takes the kernel that torch takes there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attention

from inductor_frontend import CaptureOptions, capture
from inductor_frontend.devices import DEVICES, properties_here
from inductor_frontend.torch_patches._compat import inverts_masks
from wrapper_ir import ir
from wrapper_ir_torch.attention_choice import AttentionCall, chosen

pytest.importorskip("triton", reason="programs for a GPU hold Triton kernels")

HOPPER = DEVICES["sm_90"]
AMPERE = DEVICES["sm_80"]
FLASH, EFFICIENT = SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION
CUDNN, MATH = SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH


def qkv(
    *sizes: int, dtype: torch.dtype = torch.bfloat16, heads: int | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Query, key and value of these sizes; `heads` are those of the last two."""
    others = (sizes[0], heads or sizes[1], *sizes[2:])
    return torch.zeros(sizes, dtype=dtype), torch.zeros(others, dtype=dtype), torch.zeros(others, dtype=dtype)


def call(*sizes: int, dtype: torch.dtype = torch.bfloat16, heads: int | None = None) -> AttentionCall:
    query, key, value = qkv(*sizes, dtype=dtype, heads=heads)
    return AttentionCall(query=query, key=key, value=value)


def test_which_kernel() -> None:
    plain, single = call(2, 4, 16, 32), call(2, 4, 16, 32, dtype=torch.float32)
    assert [chosen(plain, gpu) for gpu in (HOPPER, AMPERE)] == [CUDNN, FLASH]
    assert chosen(plain, replace(HOPPER, cudnn=91002)) is FLASH
    assert chosen(single, HOPPER) is EFFICIENT
    assert chosen(call(2, 4, 16, 32, dtype=torch.float64), HOPPER) is MATH
    assert chosen(call(2, 4, 16, 30, dtype=torch.float32), HOPPER) is MATH
    assert chosen(call(2, 4, 16, 30), HOPPER) is FLASH
    assert [chosen(call(2, 4, 16, 256), gpu) for gpu in (HOPPER, AMPERE)] == [CUDNN, FLASH]
    assert chosen(call(2, 4, 16, 264), HOPPER) is EFFICIENT
    assert chosen(call(2, 4, 0, 32), HOPPER) is MATH
    assert chosen(call(4, 16, 32), HOPPER) is MATH


def test_masks() -> None:
    mask = torch.zeros(16, 16, dtype=torch.bool)
    masked = replace(call(2, 4, 16, 32), mask=mask)
    assert [chosen(masked, gpu) for gpu in (HOPPER, AMPERE)] == [CUDNN, EFFICIENT]
    assert chosen(replace(masked, mask=mask[None]), HOPPER) is EFFICIENT
    assert chosen(replace(masked, mask=mask[None, :, :1]), AMPERE) is EFFICIENT
    assert chosen(replace(masked, mask=torch.zeros(16, 32, dtype=torch.bool)[:, ::2]), HOPPER) is MATH


def test_grouped_heads() -> None:
    grouped = replace(call(2, 8, 16, 32, heads=2), grouped=True)
    assert [chosen(grouped, gpu) for gpu in (HOPPER, AMPERE)] == [CUDNN, FLASH]
    assert chosen(replace(grouped, grouped=False), AMPERE) is MATH
    assert chosen(replace(call(2, 8, 16, 32, dtype=torch.float32, heads=2), grouped=True), AMPERE) is MATH
    assert chosen(replace(call(2, 8, 16, 32, heads=3), grouped=True), AMPERE) is MATH


def test_training() -> None:
    trained = call(2, 4, 16, 224)
    trained.query.requires_grad_()
    assert chosen(trained, AMPERE) is FLASH
    assert chosen(trained, DEVICES["sm_86"]) is EFFICIENT
    assert chosen(replace(call(2, 4, 16, 32), dropout=0.1), HOPPER) is FLASH  # no multiple of a 16th
    assert chosen(replace(call(2, 4, 16, 32), dropout=0.125), HOPPER) is CUDNN


def test_what_the_process_has_switched_off() -> None:
    with sdpa_kernel([EFFICIENT, MATH]):
        assert chosen(call(2, 4, 16, 32), HOPPER) is EFFICIENT
    with sdpa_kernel([MATH]):
        assert chosen(call(2, 4, 16, 32), HOPPER) is MATH


def program(
    model: Callable[..., object], *args: torch.Tensor, arch: str = "sm_90", **options: object
) -> ir.Program:
    return capture(model, args, target=f"cuda:{arch}", **options).program  # type: ignore[arg-type]  # named by the caller


def operators(captured: ir.Program) -> list[str]:
    return [op.target for op in captured.main.body if isinstance(op, ir.CallExtern)]


def test_captured_programs_call_it() -> None:
    q, k, v = qkv(2, 4, 16, 32)
    assert operators(program(attention, q, k, v)) == ["aten::_scaled_dot_product_cudnn_attention"]
    assert operators(program(attention, q, k, v, arch="sm_80")) == [
        "aten::_scaled_dot_product_flash_attention"
    ]
    q, k, v = (t.float() for t in (q, k, v))
    assert operators(program(attention, q, k, v)) == ["aten::_scaled_dot_product_efficient_attention"]
    older = CaptureOptions(gpu=replace(HOPPER, cudnn=0))
    q, k, v = (t.half() for t in (q, k, v))
    assert operators(program(attention, q, k, v, options=older)) == [
        "aten::_scaled_dot_product_flash_attention"
    ]


def test_head_sizes_are_padded_for_flash_attention() -> None:
    captured = program(attention, *qkv(2, 4, 16, 30), arch="sm_80")
    assert operators(captured) == ["aten::_scaled_dot_product_flash_attention"]
    last = captured.main.body[-1]
    assert isinstance(last, ir.Return)
    [out] = last.values
    assert isinstance(out, ir.Value)
    assert isinstance(out.type, ir.TensorType)
    assert [str(s) for s in out.type.sizes] == ["2", "4", "16", "30"]
    assert str(out.type.strides[2]) == "32"


def test_masks_lie_in_memory_as_the_kernel_reads_them() -> None:
    """Rows of 6 elements are padded to 8; the program keeps the padded memory."""
    q, k, v = qkv(2, 4, 6, 32, dtype=torch.float32)
    mask = torch.ones(6, 6, dtype=torch.bool)
    captured = program(lambda q, k, v, m: attention(q, k, v, m), q, k, v, mask)
    assert operators(captured)[-1] == "aten::_scaled_dot_product_efficient_attention"
    assert len(captured.kernels) == 1


def test_dynamic_sizes() -> None:
    q, k, v = qkv(2, 4, 16, 32, dtype=torch.float32)
    batch, length = torch.export.Dim("batch", min=2), torch.export.Dim("length", min=2)
    shapes = ({0: batch, 2: length},) * 3
    captured = program(lambda q, k, v: attention(q, k, v), q, k, v, dynamic_shapes=shapes)
    assert operators(captured) == ["aten::_scaled_dot_product_efficient_attention"]


def test_wrong_arguments_are_refused_as_by_torch() -> None:
    q, k, v = qkv(2, 4, 16, 32)
    with pytest.raises(Exception, match="same dtype"):
        program(attention, q, k.float(), v)


def test_cpu_tensors_are_left_alone() -> None:
    q, k, v = qkv(2, 4, 16, 32, dtype=torch.float32)
    captured = program(lambda q, k, v, x: (attention(q.cpu(), k.cpu(), v.cpu()), x + 1), q, k, v, q)
    assert "flash_attention_for_cpu" in " ".join(operators(captured))


def test_afterwards_the_operator_is_as_before() -> None:
    op = torch.ops.aten.scaled_dot_product_attention.default
    kernels = dict(op.py_kernels)
    program(attention, *qkv(2, 4, 16, 32))
    assert dict(op.py_kernels) == kernels


def test_how_masks_become_numbers_is_asked() -> None:
    assert inverts_masks() in (True, False)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch chooses for the device that is there")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_torch_chooses_the_same_on_the_device(dtype: torch.dtype) -> None:
    gpu = properties_here()
    differ = []
    for size in (1, 8, 30, 32, 128, 136, 192, 256, 264):
        for lengths in ((1, 1), (1, 16), (16, 1), (16, 16), (16, 24), (0, 16)):
            for masked, causal, heads in (
                (False, False, 8), (True, False, 8), (False, True, 8), (False, False, 2),
            ):  # fmt: skip
                query = torch.zeros(2, 8, lengths[0], size, dtype=dtype, device="cuda")
                key = torch.zeros(2, heads, lengths[1], size, dtype=dtype, device="cuda")
                mask = torch.zeros(lengths, dtype=dtype, device="cuda") if masked else None
                one = AttentionCall(
                    query=query, key=key, value=key, mask=mask, causal=causal, grouped=heads != 8
                )
                there = torch._fused_sdp_choice(
                    query, key, key, mask, 0.0, causal, scale=None, enable_gqa=heads != 8
                )
                if there != chosen(one, gpu).value:
                    differ.append((size, lengths, masked, causal, heads, there, chosen(one, gpu)))
    assert differ == []
