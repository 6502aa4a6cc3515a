"""Decomposes `scaled_dot_product_attention` for a GPU that this machine does not have.

Torch queries the device to select a fused kernel. Without a device it selects the matmuls and the softmax, or
fails. While a GPU is emulated, the operator decomposes as on that GPU: `chosen` selects the kernel, and this
module repeats the operations that torch adds around each kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._C import DispatchKey
from torch.nn.attention import SDPBackend

from inductor_frontend.torch_patches._compat import inverts_masks
from inductor_frontend.torch_patches.replaced import replaced_kernels
from inductor_frontend.torch_patches.table import ATTENTION
from wrapper_ir_torch.attention_choice import AttentionCall, chosen, holds
from wrapper_ir_torch.gpu_properties import GpuProperties

_LEAST = -65504.0
"""Replaces minus infinity in masks for cuDNN if torch inverts masks: the least finite float16."""


def _added(call: AttentionCall, fill: float = -math.inf) -> torch.Tensor | None:
    """Returns the mask as an additive bias. A boolean mask becomes 0 or `fill`."""
    mask = call.mask
    if mask is None or mask.dtype is not torch.bool:
        return mask

    def number(value: float) -> torch.Tensor:
        return torch.scalar_tensor(value, dtype=call.query.dtype, device=call.query.device)

    if call.inverted:
        return torch.where(mask.logical_not(), fill, number(0.0))
    return torch.where(mask, 0.0, number(fill))


def _padded(tensor: torch.Tensor, count: int | torch.SymInt) -> torch.Tensor:
    return torch.constant_pad_nd(tensor, [0, count])


def _run_flash(call: AttentionCall) -> torch.Tensor:
    """Calls flash attention; head sizes are padded to multiples of 8."""
    size = call.query.size(-1)
    q, k, v = (t if holds(t.size(-1) % 8 == 0) else _padded(t, 8 - t.size(-1) % 8) for t in call.tensors)
    scale = call.scale if call.scale is not None else 1 / math.sqrt(size)
    flash = torch.ops.aten._scaled_dot_product_flash_attention.default
    out: torch.Tensor = flash(q, k, v, call.dropout, call.causal, False, scale=scale)[0]
    return out if holds(out.size(-1) == size) else out[..., :size]


def _run_efficient(call: AttentionCall) -> torch.Tensor:
    """Calls memory-efficient attention; a misaligned mask is padded so that its rows begin at multiples of 8
    elements."""
    mask = _added(call)
    if mask is not None:
        if not _is_aligned(mask):
            size = mask.size(-1)
            mask = _padded(mask, 8 - size % 8)[..., :size]
        mask = mask.expand(call.query.size(0), call.query.size(1), call.query.size(2), call.key.size(2))
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention.default
    out: torch.Tensor = efficient(
        *call.tensors, mask, _keeps_sums(call), call.dropout, call.causal, scale=call.scale
    )[0]
    return out


def _is_aligned(mask: torch.Tensor) -> bool:
    """Returns whether all rows are statically known to begin at multiples of 8 elements."""
    *strides, last = mask.stride()
    return all(_is_multiple(s) for s in strides) and bool(last == 1)


def _is_multiple(stride: int | torch.SymInt) -> bool:
    return isinstance(stride, int) and stride % 8 == 0


def _run_cudnn(call: AttentionCall) -> torch.Tensor:
    mask = _added(call, _LEAST if call.inverted else -math.inf)
    cudnn = torch.ops.aten._scaled_dot_product_cudnn_attention.default
    out: torch.Tensor = cudnn(
        *call.tensors, mask, _keeps_sums(call), call.dropout, call.causal, False, scale=call.scale
    )[0]
    return out


def _keeps_sums(call: AttentionCall) -> bool:
    return torch.is_grad_enabled() and call.trained


def _run_math(call: AttentionCall) -> torch.Tensor:
    plain = torch.ops.aten._scaled_dot_product_attention_math.default
    mask = _added(call)
    out: torch.Tensor = plain(
        *call.tensors, mask, call.dropout, call.causal, None, scale=call.scale, enable_gqa=call.grouped
    )[0]
    return out


_RUN = {
    SDPBackend.FLASH_ATTENTION: _run_flash,
    SDPBackend.EFFICIENT_ATTENTION: _run_efficient,
    SDPBackend.CUDNN_ATTENTION: _run_cudnn,
    SDPBackend.MATH: _run_math,
}


@contextmanager
def attention_on(gpu: GpuProperties) -> Iterator[None]:
    """Decomposes the operator for tensors on `cuda` as on this GPU, while the context is active."""
    op = torch.ops.aten.scaled_dot_product_attention.default
    key = DispatchKey.CompositeImplicitAutograd
    inverted = inverts_masks()

    def attention(  # noqa: PLR0913 - the operator's own
        query: torch.Tensor,
        key_: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        call = AttentionCall(
            query=query,
            key=key_,
            value=value,
            mask=attn_mask,
            dropout=dropout_p,
            causal=is_causal,
            scale=scale,
            grouped=enable_gqa,
            inverted=inverted,
        )
        if query.device.type != "cuda" or not _is_valid(call):
            out: torch.Tensor = op._op_dk(
                key, query, key_, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
            return out
        return _RUN[chosen(call, gpu)](call)

    with replaced_kernels((ATTENTION, key, attention)):
        yield


def _is_valid(call: AttentionCall) -> bool:
    """Returns whether torch accepts these arguments. Torch's own decomposition raises the error otherwise."""
    first, *others = call.tensors
    return (
        all(t.dtype is first.dtype and t.device == first.device for t in others)
        and all(t.dim() >= 2 and not t.is_nested for t in call.tensors)
        and not (call.causal and call.mask is not None)
    )
