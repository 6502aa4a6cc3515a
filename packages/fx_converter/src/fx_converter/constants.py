"""Constants of an artifact as torch tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from fx_converter.errors import ConvertError
from wrapper_ir import ir
from wrapper_ir.analysis.alignment import constant_alignment
from wrapper_ir.analysis.memo import Analyses
from wrapper_ir.artifact import Artifact, TensorData
from wrapper_ir.expr import evaluate
from wrapper_ir_torch import DTYPES, bytes_tensor, torch_device


def load_constants(
    artifact: Artifact, analyses: Analyses, device: torch.device | None = None
) -> dict[ir.Value, object]:
    """Returns all constants: tensors, or packed objects of torch. Immutable ones share the artifact's memory,
    mutable ones have separate memory. Constants of one storage are windows of it. They are on `device`; None
    keeps the device of each. Raises ConvertError FX102 if data is missing or too short."""
    storages: dict[str, Tensor] = {}
    alignment = analyses.get(constant_alignment)
    return {c.value: _load(c, artifact, storages, alignment, device) for c in artifact.program.constants}


def _load(
    constant: ir.Constant,
    artifact: Artifact,
    storages: dict[str, Tensor],
    alignment: int,
    device: torch.device | None,
) -> object:
    value, name = constant.value, constant.value.name
    if name in artifact.handles:
        return artifact.handles[name]
    data = artifact.constants.get(constant.data_name)
    if data is None or not ir.is_tensor(value):
        raise ConvertError(
            "FX102", f"there is no data for constant %{name}", hint="convert the artifact, not its program"
        )
    type = value.type
    sizes, strides = ([int(evaluate(e, {})) for e in part] for part in (type.sizes, type.strides))
    need = int(evaluate(ir.extent_bytes(type), {}))
    end = constant.offset + need
    if data.nbytes < end:
        raise ConvertError("FX102", f"constant %{name} needs {end} bytes, but there are {data.nbytes}")
    dtype, device = DTYPES[type.dtype], device or torch_device(type.device)
    if need == 0:
        return torch.empty_strided(sizes, strides, dtype=dtype, device=device)
    if not constant.storage:
        return _memory(data, need, constant, alignment, device).view(dtype).as_strided(sizes, strides)
    if constant.storage not in storages:
        storages[constant.storage] = _memory(data, data.nbytes, constant, alignment, device)
    window = torch.empty(0, dtype=dtype, device=device)
    return window.set_(
        storages[constant.storage].untyped_storage(), constant.offset // type.dtype.itemsize, sizes, strides
    )


def _memory(
    data: TensorData, nbytes: int, constant: ir.Constant, alignment: int, device: torch.device
) -> Tensor:
    """Returns the first bytes of some data as a flat tensor on `device`, aligned to `alignment` bytes."""
    type = constant.value.type
    assert isinstance(type, ir.TensorType)
    flat = bytes_tensor(data.buffer[:nbytes])
    if constant.mutable or flat.data_ptr() % max(alignment, type.dtype.itemsize):
        flat = flat.clone()
    return flat.to(device)
