"""Constants that share bytes, in files: what each of them holds at present."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from wrapper_ir import ir
from wrapper_ir.artifact import TensorData


# Any: a packed constant is an object of torch's own
def moved_windows(program: ir.Program, held: Mapping[ir.Value, Any]) -> set[ir.Value]:
    """Constants that lie no longer where others of their storage do, since somebody gave their tensors other memory: each
    is one of its own from then on."""
    starts: dict[str, int] = {}
    found: set[ir.Value] = set()
    for constant in program.constants:
        tensor = held[constant.value]
        if constant.storage and isinstance(tensor, Tensor):
            start = tensor.data_ptr() - constant.offset
            if starts.setdefault(constant.storage, start) != start:
                found.add(constant.value)
    return found


def placed(data: TensorData, constant: ir.Constant, whole: TensorData | None) -> TensorData:
    """The bytes of the storage that a constant names, `whole` until now, with its own in them; `data` where it names none."""
    if not constant.storage or whole is None:
        return data
    made = bytearray(whole.buffer)
    made[constant.offset : constant.offset + data.nbytes] = data.buffer
    return TensorData(whole.dtype, memoryview(made))
