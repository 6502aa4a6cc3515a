"""Checks of what operators return, in emitted Python and in graphs."""

from __future__ import annotations

from typing import Any, NoReturn

from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError

_DTYPES = {f"torch.{dtype.torch_name}": dtype.value for dtype in ir.DType}


def check_result(
    name: str, got: Any, dtype: object, device: str
) -> None:  # Any: whatever an operator returned
    """Raises ExecutionError WIR927 unless `got` is a torch tensor in strided memory within its storage, of this dtype and on this
    device; a device without an index stands for all of its type."""
    if not hasattr(got, "untyped_storage"):
        _fail(name, "a tensor", "nothing" if got is None else f"a {type(got).__name__}")
    if got.dtype is not dtype:
        _fail(name, _dtype_text(dtype), _dtype_text(got.dtype))
    if str(got.layout) != "torch.strided" or got.is_nested:
        kind = "nested" if got.is_nested else str(got.layout).removeprefix("torch.")
        _fail(name, "strided", kind)
    found = str(got.device)
    if found != device and (":" in device or got.device.type != device):
        _fail(name, f"on {device}", f"on {found}")
    if not is_within_storage(got):
        held = got.untyped_storage().nbytes()
        sizes, strides, offset = list(got.size()), list(got.stride()), got.storage_offset()
        _fail(
            name, "within its storage", f"sizes {sizes}, strides {strides}, offset {offset} over {held} bytes"
        )


def is_within_storage(tensor: Any) -> bool:  # Any: a torch tensor in strided memory
    """Whether the storage under a tensor holds all of its elements."""
    if tensor.numel() == 0:
        return True
    last = tensor.storage_offset()
    for size, stride in zip(tensor.size(), tensor.stride(), strict=True):
        last += (size - 1) * stride
    needed: int = (last + 1) * tensor.element_size()
    held: int = tensor.untyped_storage().nbytes()
    return needed <= held


def _dtype_text(dtype: object) -> str:
    return _DTYPES.get(str(dtype), str(dtype))


def _fail(name: str, declared: str, got: str) -> NoReturn:
    raise ExecutionError(
        "WIR927",
        f"%{name} is declared as {declared}, but the operator returned {got}",
        hint="correct the call's arguments, or the type of its result",
    )
