"""Constants that share bytes, in files: the present contents of each."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from wrapper_ir import ir
from wrapper_ir.artifact import TensorData


def moved_windows(program: ir.Program, constants: Mapping[ir.Value, object]) -> set[ir.Value]:
    """Returns the constants whose tensors no longer share their storage, because other memory was assigned to
    them. They become separate constants."""
    starts: dict[str, int] = {}
    moved: set[ir.Value] = set()
    for constant in program.constants:
        tensor = constants[constant.value]
        if constant.storage and isinstance(tensor, Tensor):
            start = tensor.data_ptr() - constant.offset
            if starts.setdefault(constant.storage, start) != start:
                moved.add(constant.value)
    return moved


def placed(data: TensorData, constant: ir.Constant, whole: TensorData | None) -> TensorData:
    """Returns the bytes of a constant's storage, previously `whole`, with its own bytes; `data` if it names
    no storage."""
    if not constant.storage or whole is None:
        return data
    content = bytearray(whole.buffer)
    content[constant.offset : constant.offset + data.nbytes] = data.buffer
    return TensorData(whole.dtype, memoryview(content))
