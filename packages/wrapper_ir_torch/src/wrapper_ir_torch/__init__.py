"""Torch's objects for types and operators of programs, shared by frontend, emitters and the torch machine."""

from __future__ import annotations

from wrapper_ir_torch._compat import (
    FAST_EMPTY,
    FAST_VIEW,
    OpOverload,
    bytes_tensor,
    caller,
    find_group,
    has_dispatch_modes,
    is_overload,
    program_groups,
    registered_symmetric,
    storage_key,
    torch_operators,
)
from wrapper_ir_torch.agreement import TorchGroupStore, agreement, compare_ranks, own_ranks
from wrapper_ir_torch.collectives import FINISHED, finished_collective
from wrapper_ir_torch.constants import original_tensor, packed_tensor, with_constants
from wrapper_ir_torch.graphs import TorchGraphs
from wrapper_ir_torch.group_memory import SYMMETRIC_MEMORY, GroupMemory
from wrapper_ir_torch.group_operators import EMPTY_REGISTERED, EMPTY_SYMMETRIC, signed_id
from wrapper_ir_torch.operators import HIGHER_ORDER, RUNNERS, Operator, resolve
from wrapper_ir_torch.placement import DeviceFunctions, device_functions
from wrapper_ir_torch.registration import REGISTERED_MEMORY, RegisteredMemory, RegistrationCounts
from wrapper_ir_torch.repeated import REPEATERS, Repeaters, repeated_operator
from wrapper_ir_torch.types import DTYPE_OF, DTYPES, LAYOUTS, MEMORY_FORMATS, torch_device

__all__ = [
    "DTYPES",
    "DTYPE_OF",
    "EMPTY_REGISTERED",
    "EMPTY_SYMMETRIC",
    "FAST_EMPTY",
    "FAST_VIEW",
    "FINISHED",
    "HIGHER_ORDER",
    "LAYOUTS",
    "MEMORY_FORMATS",
    "REGISTERED_MEMORY",
    "REPEATERS",
    "RUNNERS",
    "SYMMETRIC_MEMORY",
    "DeviceFunctions",
    "GroupMemory",
    "OpOverload",
    "Operator",
    "RegisteredMemory",
    "RegistrationCounts",
    "Repeaters",
    "TorchGraphs",
    "TorchGroupStore",
    "agreement",
    "bytes_tensor",
    "caller",
    "compare_ranks",
    "device_functions",
    "find_group",
    "finished_collective",
    "has_dispatch_modes",
    "is_overload",
    "original_tensor",
    "own_ranks",
    "packed_tensor",
    "program_groups",
    "registered_symmetric",
    "repeated_operator",
    "resolve",
    "signed_id",
    "storage_key",
    "torch_device",
    "torch_operators",
    "with_constants",
]
