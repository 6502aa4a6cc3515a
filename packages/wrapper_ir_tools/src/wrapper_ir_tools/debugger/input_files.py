"""Reads inputs from safetensors files, by the names of `main`'s parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wrapper_ir import ir
from wrapper_ir.artifact import TensorData
from wrapper_ir.artifact.file.safetensors import read_safetensors, read_shapes
from wrapper_ir.errors import DebugError
from wrapper_ir.expr import Int, Number, Sym
from wrapper_ir.plugins.protocols import Machine
from wrapper_ir.support.files import opened
from wrapper_ir_runtime.interp import example_inputs

Shapes = Mapping[str, tuple[int, ...]]


# Any: the machine's tensors
def read_inputs(
    program: ir.Program, machine: Machine[Any], file: Path, seed: int, given: Mapping[str, Number]
) -> list[Any]:
    """Returns flat arguments of `main`: those in the file, and generated ones for the other parameters.

    Sizes in the file determine symbols. Raises DebugError WIR950 for a tensor that fits no parameter, and
    ArtifactError WIR707.
    """
    try:
        with opened(file) as stream:
            raw = memoryview(stream.read())
    except OSError as error:
        raise DebugError("WIR950", f"cannot read {str(file)!r}: {error.strerror}") from error
    shapes = read_shapes(raw)
    params = {p.value.name: p for p in program.main.params}
    if unknown := sorted(shapes.keys() - params.keys()):
        raise DebugError(
            "WIR950",
            f"{file} has {', '.join(unknown)}, which main does not take",
            hint=f"its parameters: {', '.join(params) or 'none'}",
        )
    types = {name: type for name in shapes if isinstance(type := params[name].value.type, ir.TensorType)}
    data = read_safetensors(raw, {name: type.dtype for name, type in types.items()})
    symbols = dict(given)
    for name, type in types.items():
        symbols |= _symbols(type, shapes[name])
    inputs = example_inputs(program, machine, seed, symbols)
    for position, param in enumerate(program.main.params):
        name = param.value.name
        if name in types:
            machine.copy(
                inputs[position], _tensor(param, inputs[position], data[name], shapes[name], machine), False
            )
    return inputs


def _symbols(type: ir.TensorType, shape: tuple[int, ...]) -> dict[str, Number]:
    return {dim.name: size for dim, size in zip(type.sizes, shape) if isinstance(dim, Sym)}


def _tensor(
    param: ir.Param, target: Any, data: TensorData, shape: tuple[int, ...], machine: Machine[Any]
) -> Any:
    type = param.value.type
    assert isinstance(type, ir.TensorType)
    if tuple(machine.sizes(target)) != shape:
        raise DebugError(
            "WIR950", f"%{param.value.name} has sizes {list(machine.sizes(target))}, the file's {list(shape)}"
        )
    sizes = tuple(map(Int, shape))
    dense = ir.TensorType(type.dtype, sizes, ir.contiguous_strides(sizes))
    return machine.constant(data, dense, False, ir.DEFAULT_ALIGNMENT)
