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
    device, and no real tensor with the negative bit, whose memory kernels would read; a device without an index stands for all of
    its type."""
    if (wrong := _fault(got, dtype, device)) is not None:
        raise ExecutionError(
            "WIR927",
            f"%{name} is declared as {wrong[0]}, but the operator returned {wrong[1]}",
            hint="correct the call's arguments, or the type of its result",
        )


def check_apart(name: str, got: Any, *operands: Any) -> None:
    """Raises ExecutionError WIR927 if `got` shares the storage of an operand although its schema declares it as new."""
    address = got.untyped_storage().data_ptr()
    if address and any(x.untyped_storage().data_ptr() == address for x in operands):
        fail_apart(name)


def fail_apart(name: str) -> NoReturn:
    """Raises ExecutionError WIR927 for a result in the memory of an argument."""
    raise ExecutionError(
        "WIR927",
        f"%{name} is declared as new memory, but the operator returned memory of its argument",
        hint="have the operator return x.clone(), or declare the alias in its schema: `Tensor(a) x -> Tensor(a)`",
    )


def check_written(name: str, got: Any, dtype: object, device: str, storage: int = 0) -> None:
    """Raises ExecutionError WIR927 unless `got`, which an operator wrote, is still as `check_result` wants it, in a storage of at
    least `storage` bytes."""
    wrong = _fault(got, dtype, device)
    if wrong is None and got.untyped_storage().nbytes() < storage:
        wrong = f"in a storage of {storage} bytes", f"one of {got.untyped_storage().nbytes()}"
    if wrong is not None:
        fail_written(name, *wrong)


def fail_written(name: str, declared: str, left: str) -> NoReturn:
    """Raises ExecutionError WIR927 for a tensor that an operator has given other memory than its type says."""
    raise ExecutionError(
        "WIR927",
        f"%{name} is declared as {declared}, but an operator that wrote its storage left {left}",
        hint="resize and replace storages with the ops resize_storage and set_storage",
    )


def _fault(got: Any, dtype: object, device: str) -> tuple[str, str] | None:
    """What was declared, and what is there instead."""
    if not hasattr(got, "untyped_storage"):
        return "a tensor", "nothing" if got is None else f"a {type(got).__name__}"
    if got.dtype is not dtype:
        return _dtype_text(dtype), _dtype_text(got.dtype)
    if str(got.layout) != "torch.strided" or got.is_nested:
        kind = "nested" if got.is_nested else str(got.layout).removeprefix("torch.")
        return "strided", kind
    if got.is_neg() and not got.is_complex():
        return "plain", "negated: have the operator return x.resolve_neg()"
    found = str(got.device)
    if found != device and (":" in device or got.device.type != device):
        return f"on {device}", f"on {found}"
    if not is_within_storage(got):
        held = got.untyped_storage().nbytes()
        sizes, strides, offset = list(got.size()), list(got.stride()), got.storage_offset()
        return (
            "within its storage",
            f"sizes {sizes}, strides {strides}, offset {offset} over {held} bytes",
        )
    return None


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
