"""Constants of an artifact as torch tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fx_converter._compat import bytes_tensor
from fx_converter.errors import ConvertError
from fx_converter.native import DTYPES, torch_device
from wrapper_ir.artifact import Artifact, TensorData
from wrapper_ir.expr import evaluate
from wrapper_ir.layout import extent_bytes
from wrapper_ir.program import Constant
from wrapper_ir.types import TensorType
from wrapper_ir.values import Value

__all__ = ["load_constants"]


# Any: a packed constant is an object of torch's that only this machine has
def load_constants(artifact: Artifact) -> dict[Value, Any]:
    """All constants. Immutable ones share the artifact's memory, mutable ones have memory of their own. Raises
    ConvertError FX102 where data is missing or too short."""
    return {c.value: _load(c, artifact) for c in artifact.program.constants}


def _load(constant: Constant, artifact: Artifact) -> Any:
    name, type = constant.value.name, constant.value.type
    if name in artifact.handles:
        return artifact.handles[name]
    data = artifact.constants.get(name)
    if data is None or not isinstance(type, TensorType):
        raise ConvertError(
            "FX102", f"there is no data for constant %{name}", hint="convert the artifact, not its program"
        )
    return _tensor(name, type, data, constant.mutable)


def _tensor(name: str, type: TensorType, data: TensorData, mutable: bool) -> Tensor:
    sizes, strides = ([int(evaluate(e, {})) for e in part] for part in (type.sizes, type.strides))
    need = int(evaluate(extent_bytes(type), {}))
    if data.nbytes < need:
        raise ConvertError("FX102", f"constant %{name} needs {need} bytes, but there are {data.nbytes}")
    dtype, device = DTYPES[type.dtype], torch_device(type.device)
    if need == 0:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=device)
    flat = bytes_tensor(data.buffer[:need])
    if mutable or flat.data_ptr() % type.dtype.itemsize:
        flat = flat.clone()
    return flat.view(dtype).to(device).as_strided(sizes, strides)
