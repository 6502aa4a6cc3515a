"""Checks of operator results, in emitted Python and in graphs."""

from __future__ import annotations

from typing import Any, NoReturn

from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime.torch_types import TorchTensor

_DTYPES = {f"torch.{dtype.torch_name}": dtype.value for dtype in ir.DType}


def check_result(name: str, got: object, dtype: object, device: str) -> None:
    """Raises ExecutionError WIR927 unless an operator returned a tensor of this dtype on this device.

    The tensor must be in strided memory within its storage. A real tensor must not have the negative bit,
    since kernels read its memory. A device without an index matches every index.
    """
    if (wrong := _fault(got, dtype, device)) is not None:
        raise ExecutionError(
            "WIR927",
            f"%{name} is declared as {wrong[0]}, but the operator returned {wrong[1]}",
            hint="correct the call's arguments, or the type of its result",
        )


def check_apart(name: str, got: TorchTensor, *operands: TorchTensor) -> None:
    """Raises ExecutionError WIR927 if `got` shares the storage of an operand although its schema declares it
    as new."""
    address = got.untyped_storage().data_ptr()
    if address and any(x.untyped_storage().data_ptr() == address for x in operands):
        fail_apart(name)


def fail_apart(name: str) -> NoReturn:
    """Raises ExecutionError WIR927 for a result in the memory of an argument."""
    raise ExecutionError(
        "WIR927",
        f"%{name} is declared as new memory, but the operator returned memory of its argument",
        hint="have the operator return x.clone(), or declare the alias in its schema: "
        "`Tensor(a) x -> Tensor(a)`",
    )


def check_written(name: str, got: TorchTensor, dtype: object, device: str, storage: int = 0) -> None:
    """Raises ExecutionError WIR927 unless a tensor that an operator wrote still fulfils `check_result`.

    Its storage must have at least `storage` bytes.
    """
    wrong = _fault(got, dtype, device)
    if wrong is None and got.untyped_storage().nbytes() < storage:
        wrong = f"in a storage of {storage} bytes", f"one of {got.untyped_storage().nbytes()}"
    if wrong is not None:
        fail_written(name, *wrong)


def fail_written(name: str, declared: str, actual: str) -> NoReturn:
    """Raises ExecutionError WIR927 for a tensor whose memory an operator changed to differ from its type."""
    raise ExecutionError(
        "WIR927",
        f"%{name} is declared as {declared}, but an operator that wrote its storage left {actual}",
        hint="resize and replace storages with the ops resize_storage and set_storage",
    )


# Any: a result of every kind; only tensors of torch have this method
def _fault(got: Any, dtype: object, device: str) -> tuple[str, str] | None:
    """Returns what was declared, and what the result is instead; None if they agree."""
    if not hasattr(got, "untyped_storage"):
        return "a tensor", "nothing" if got is None else f"a {type(got).__name__}"
    if got.dtype is not dtype:
        return _dtype_text(dtype), _dtype_text(got.dtype)
    if str(got.layout) != "torch.strided" or got.is_nested:
        kind = "nested" if got.is_nested else str(got.layout).removeprefix("torch.")
        return "strided", kind
    if got.is_neg() and not got.is_complex():
        return "plain", "negated: have the operator return x.resolve_neg()"
    actual = str(got.device)
    if actual != device and (":" in device or got.device.type != device):
        return f"on {device}", f"on {actual}"
    if not is_within_storage(got):
        nbytes = got.untyped_storage().nbytes()
        sizes, strides, offset = list(got.size()), list(got.stride()), got.storage_offset()
        return (
            "within its storage",
            f"sizes {sizes}, strides {strides}, offset {offset} over {nbytes} bytes",
        )
    return None


def is_within_storage(tensor: TorchTensor) -> bool:
    """Returns whether the storage of a strided tensor contains all of its elements."""
    if tensor.numel() == 0:
        return True
    last = tensor.storage_offset()
    for size, stride in zip(tensor.size(), tensor.stride(), strict=True):
        last += (size - 1) * stride
    required: int = (last + 1) * tensor.element_size()
    return required <= tensor.untyped_storage().nbytes()


def _dtype_text(dtype: object) -> str:
    return _DTYPES.get(str(dtype), str(dtype))
