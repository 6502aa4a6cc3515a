"""Selects the fused attention kernel that torch would select on a GPU: its criteria for dense tensors on
NVIDIA GPUs.

Torch selects in C++, for the device that is present. Backends that the process has disabled
(`torch.backends.cuda`, `torch.nn.attention.sdpa_kernel`) stay disabled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, guard_or_false, statically_known_true
from torch.nn.attention import SDPBackend

from wrapper_ir_torch.gpu_properties import GpuProperties

Condition = bool | torch.SymBool

_HALF = (torch.float16, torch.bfloat16)
_FUSED = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION)
_PREFERS_CUDNN = 91500
"""Torch prefers cuDNN if its version is later than this one and the GPU is one of `_CUDNN_FIRST`."""
_CUDNN_FIRST = (9, 10)
_NO_CUDNN_DROPOUT = range(91101, 91400)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCall:
    """Arguments of the operator. The query has sizes (batch, heads, length, head size)."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None = None
    dropout: float = 0.0
    causal: bool = False
    scale: float | None = None
    grouped: bool = False
    """Several heads of the query share one head of the key and the value."""
    inverted: bool = False
    """True if this torch inverts boolean masks (`inverts_masks`): the added values and their order differ."""

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Query, key and value."""
        return self.query, self.key, self.value

    @property
    def trained(self) -> bool:
        """True if an input requires a gradient."""
        return any(t.requires_grad for t in self.tensors)


def holds(condition: Condition) -> bool:
    """Returns whether a condition on sizes is true. A condition on unbacked sizes is false unless it is
    provable."""
    return guard_or_false(condition) if free_unbacked_symbols(condition) else bool(condition)


def chosen(call: AttentionCall, gpu: GpuProperties) -> SDPBackend:
    """Returns the kernel that torch selects for this call on `gpu`."""
    usable: dict[SDPBackend, Callable[[AttentionCall, GpuProperties], bool]] = {
        SDPBackend.CUDNN_ATTENTION: _cudnn,
        SDPBackend.FLASH_ATTENTION: _flash,
        SDPBackend.EFFICIENT_ATTENTION: _efficient,
        SDPBackend.MATH: lambda call, gpu: torch._C._get_math_sdp_enabled(),
    }
    for backend in _order(gpu):
        if backend in usable and usable[backend](call, gpu):
            return backend
    return SDPBackend.MATH


def _order(gpu: GpuProperties) -> list[SDPBackend]:
    """Returns the kernels in the process's order of priority. If the process has never queried a GPU, the
    order is that of `gpu`."""
    order = [_backend(number) for number in torch._C._get_sdp_priority_order()]
    untouched = order[: len(_FUSED)] == [
        SDPBackend.FLASH_ATTENTION,
        SDPBackend.EFFICIENT_ATTENTION,
        SDPBackend.MATH,
    ]
    if untouched and gpu.major in _CUDNN_FIRST and gpu.cudnn > _PREFERS_CUDNN:
        order.remove(SDPBackend.CUDNN_ATTENTION)
        order.insert(0, SDPBackend.CUDNN_ATTENTION)
    return order


def _backend(number: int) -> SDPBackend:
    members: Any = SDPBackend.__members__  # Any: torch's stubs have no numbers
    backend: SDPBackend = next(b for b in members.values() if int(b) == number)
    return backend


def _four_dimensions(call: AttentionCall) -> bool:
    return all(t.dim() == 4 for t in call.tensors)


def _same_head_size(call: AttentionCall) -> bool:
    q, k, v = (t.size(-1) for t in call.tensors)
    return holds(q == k) and holds(q == v)


def _batches_and_heads(call: AttentionCall, *, grouped: bool, same: bool = True) -> bool:
    q, k, v = call.tensors
    if not (holds(q.size(0) == k.size(0)) and holds(q.size(0) == v.size(0))):
        return False
    heads, keys, values = (t.size(-3) for t in call.tensors)
    if not (call.grouped and grouped):
        return holds(heads == keys) and holds(heads == values)
    if same and not holds(keys == values):
        return False
    return holds(heads % keys == 0) and (same or holds(heads % values == 0))


def _has_elements(call: AttentionCall) -> bool:
    return not (holds(call.query.size(-2) == 0) or holds(call.key.size(-2) == 0))


def _dense(call: AttentionCall, *, one_is_enough: bool) -> bool:
    """Returns whether the last dimensions have stride 1 (or, with `one_is_enough`, size 1)."""
    dense = all(holds(t.stride(-1) == 1) for t in call.tensors)
    if not dense and one_is_enough:
        dense = holds(call.query.size(-1) == 1)
    return dense and (call.mask is None or holds(call.mask.stride(-1) == 1))


def _flash(call: AttentionCall, gpu: GpuProperties) -> bool:
    return (
        torch._C._get_flash_sdp_enabled()
        and _four_dimensions(call)
        and call.mask is None
        and _same_head_size(call)
        and holds(call.query.size(-1) <= 256)
        and gpu.major >= 8
        and _flash_backward(call, gpu)
        and not (call.causal and not holds(call.query.size(-2) == call.key.size(-2)))
        and call.query.dtype in _HALF
        and _batches_and_heads(call, grouped=True)
        and _has_elements(call)
        and _dense(call, one_is_enough=True)
    )


def _flash_backward(call: AttentionCall, gpu: GpuProperties) -> bool:
    """Returns whether the GPU has enough shared memory for the backward kernel."""
    if not call.trained or not ((8, 6) <= (gpu.major, gpu.minor) <= (8, 9) or gpu.major == 12):
        return True
    size = call.query.size(-1)
    return holds(size <= 192) or (call.dropout == 0 and holds(size > 224))


def _efficient(call: AttentionCall, gpu: GpuProperties) -> bool:
    half = call.query.dtype in _HALF
    return (
        torch._C._get_mem_efficient_sdp_enabled()
        and _four_dimensions(call)
        and _efficient_head_size(call, _alignment(gpu, half))
        and _has_elements(call)
        and _dense(call, one_is_enough=False)
        and _batches_and_heads(call, grouped=False)
        and call.query.dtype in (torch.float16, torch.float32, *([torch.bfloat16] if gpu.major >= 8 else []))
    )


def _alignment(gpu: GpuProperties, half: bool) -> int:
    """Returns the number of elements that the memory-efficient kernels load at once."""
    if gpu.major >= 8:
        return 8 if half else 4
    return 8 if gpu.major == 7 and half else 1


def _efficient_head_size(call: AttentionCall, alignment: int) -> bool:
    size, values = call.query.size(-1), call.value.size(-1)
    return holds(size == call.key.size(-1)) and all(
        holds(n % alignment == 0) and holds(n > 0) for n in (size, values)
    )


def _cudnn(call: AttentionCall, gpu: GpuProperties) -> bool:
    return (
        torch._C._get_cudnn_sdp_enabled()
        and gpu.cudnn >= 90000
        and not (call.dropout > 0 and gpu.cudnn in _NO_CUDNN_DROPOUT)
        and _four_dimensions(call)
        and not (
            torch.are_deterministic_algorithms_enabled()
            and not torch.is_deterministic_algorithms_warn_only_enabled()
        )
        and call.query.dtype in _HALF
        and _cudnn_mask(call)
        and gpu.major >= 8
        and call.dropout * 16 == int(call.dropout * 16)
        and _has_elements(call)
        and _dense(call, one_is_enough=True)
        and _batches_and_heads(call, grouped=True, same=False)
        and _cudnn_sizes(call, gpu)
    )


def _cudnn_mask(call: AttentionCall) -> bool:
    """Returns whether cuDNN can broadcast the mask: each size is 1 or statically the full size."""
    mask = call.mask
    if mask is None:
        return True
    if mask.requires_grad or mask.dim() not in (2, 4):
        return False
    whole = (call.query.size(0), call.query.size(1), call.query.size(2), call.key.size(2))
    return all(_is_one(m) or _surely_equal(m, n) for m, n in zip(mask.shape[::-1], whole[::-1]))


def _is_one(size: int | torch.SymInt) -> bool:
    return isinstance(size, int) and size == 1


def _surely_equal(a: int | torch.SymInt, b: int | torch.SymInt) -> bool:
    return statically_known_true(a == b)


def _cudnn_sizes(call: AttentionCall, gpu: GpuProperties) -> bool:
    size, values = call.query.size(3), call.value.size(3)
    limit = 128
    if (gpu.major, gpu.minor) == (9, 0) and gpu.cudnn >= 91000:
        limit = 256
    elif gpu.major == 10 and gpu.cudnn >= 91100 and holds(size == 192) and holds(values == 128):
        limit = 192
    if not all(holds(n <= limit) and holds(n % 8 == 0) for n in (size, values)):
        return False
    return not holds(call.key.size(2) == 1) and not (call.dropout != 0 and holds(call.query.size(2) == 1))
