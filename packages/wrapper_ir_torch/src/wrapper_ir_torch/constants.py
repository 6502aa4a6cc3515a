"""New values of an artifact's constants, as torch's tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, TensorData, memory_of
from wrapper_ir.artifact.packing import names_of, original_type, pack, unpack, update_constants
from wrapper_ir.errors import ArtifactError
from wrapper_ir.expr import evaluate
from wrapper_ir_torch._compat import bytes_tensor
from wrapper_ir_torch.types import DTYPES


def with_constants(artifact: Artifact, values: Mapping[str, Tensor]) -> Artifact:
    """Returns an artifact with new values of constants, by any of their names in the model.

    Packed constants are packed again. A value has the dtype and shape of the model's tensor, any strides, and
    may be on any device. Raises ArtifactError WIR719 for other values, and for unknown names.
    """
    types = {name: original_type(c) for c in artifact.program.constants for name in names_of(c)}
    unknown = sorted(values.keys() - types)
    if unknown:
        raise ArtifactError("WIR719", f"the program has no constants {', '.join(unknown)}")
    return update_constants(artifact, {name: _data(name, t, types[name]) for name, t in values.items()})


def packed_tensor(value: Tensor, constant: ir.Constant) -> Tensor:
    """Returns the tensor of a packed constant, made from a value of its original.

    Raises ArtifactError WIR719 for another dtype or shape.
    """
    assert constant.packing is not None
    assert ir.is_tensor(constant.value)
    name = constant.packing.original
    return _tensor(pack(_data(name, value, original_type(constant)), constant.packing), constant.value.type)


def original_tensor(packed: Tensor, constant: ir.Constant) -> Tensor:
    """Returns the original of a packed constant, in new memory."""
    type = original_type(constant)
    assert constant.packing is not None
    assert isinstance(type, ir.TensorType)
    return _tensor(unpack(_data(constant.value.name, packed, constant.value.type), constant.packing), type)


def _tensor(data: TensorData, type: ir.TensorType) -> Tensor:
    sizes, strides = ([int(evaluate(e, {})) for e in part] for part in (type.sizes, type.strides))
    return bytes_tensor(data.buffer).view(DTYPES[type.dtype]).as_strided(sizes, strides).clone()


def _data(name: str, value: Tensor, type: ir.Type) -> TensorData:
    """Returns the bytes of a value in the layout of a constant's type."""
    if not isinstance(type, ir.TensorType):
        raise ArtifactError("WIR719", f"constant {name} is not a tensor")
    sizes, strides = ([int(evaluate(e, {})) for e in part] for part in (type.sizes, type.strides))
    if (value.dtype, list(value.shape)) != (DTYPES[type.dtype], sizes):
        raise ArtifactError(
            "WIR719",
            f"constant {name} is {type.dtype.value}{sizes}, not {value.dtype} of shape {list(value.shape)}",
        )
    nbytes = int(evaluate(ir.extent_bytes(type), {}))
    memory = torch.zeros(nbytes // value.element_size(), dtype=value.dtype)
    memory.as_strided(sizes, strides).copy_(value.detach())
    return TensorData(type.dtype, memory_of(memory.data_ptr(), nbytes, memory))
