"""Private names of torch that emitted modules use. They exist unchanged in torch 2.11 to 2.15."""

from __future__ import annotations

from collections.abc import Mapping

FAST_IMPORTS: Mapping[str, str] = {
    # Entry points of torch's compiled code, two to four times as fast as their public counterparts.
    "empty_cpu": "empty_cpu = torch._C._dynamo.guards._empty_strided_cpu",
    "empty_cuda": "empty_cuda = torch._C._dynamo.guards._empty_strided_cuda",
    "empty_pinned": (
        "empty_pinned = torch._C._dynamo.guards._empty_strided_cpu_pinned if torch.cuda.is_available() else "
        "torch._C._dynamo.guards._empty_strided_cpu"
    ),
    "any_requires_grad": "any_requires_grad = torch._C._any_requires_grad",
    "is_autocast_enabled": "is_autocast_enabled = torch._C._is_any_autocast_enabled",
    "set_grad_enabled": "set_grad_enabled = torch._C._set_grad_enabled",
    "count_modes": "count_modes = torch._C._len_torch_dispatch_stack",
    "reinterpret": "reinterpret = torch._C._dynamo.guards._reinterpret_tensor",
    "raw_stream": "raw_stream = torch._C._cuda_getCurrentRawStream",
    "find_group": "find_group = torch.distributed.distributed_c10d._resolve_process_group",
    "torch_layout_check": "torch_layout_check = torch._C._dynamo.guards.assert_size_stride",
}
"""Assignments for emitted modules, by the name that they define."""
