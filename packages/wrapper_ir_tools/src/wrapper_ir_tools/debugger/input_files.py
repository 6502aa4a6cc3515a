"""Reads inputs from safetensors files, by the names of `main`'s parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from wrapper_ir import ir
from wrapper_ir.artifact.file.safetensors import read_safetensors, read_shapes
from wrapper_ir.errors import DebugError
from wrapper_ir.expr import Int, Number, Sym
from wrapper_ir.plugins.protocols import Machine
from wrapper_ir.support.files import opened
from wrapper_ir_runtime.interp import example_inputs

T = TypeVar("T")


def read_inputs(
    program: ir.Program, machine: Machine[T], file: Path, seed: int, numbers: Mapping[str, Number]
) -> list[Any]:  # Any: the machine's tensors, and numbers
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
    tensors = filter(ir.is_tensor, (params[name].value for name in shapes))
    types = {value.name: value.type for value in tensors}
    data = read_safetensors(raw, {name: type.dtype for name, type in types.items()})
    symbols = dict(numbers)
    for name, type in types.items():
        symbols |= _symbols(type, shapes[name])
    inputs = example_inputs(program, machine, seed, symbols)
    for target, param in zip(inputs, program.main.params, strict=True):
        name = param.value.name
        if name in types:
            if tuple(machine.sizes(target)) != shapes[name]:
                raise DebugError(
                    "WIR950",
                    f"%{name} has sizes {list(machine.sizes(target))}, the file's {list(shapes[name])}",
                )
            sizes = tuple(map(Int, shapes[name]))
            dense = ir.TensorType(types[name].dtype, sizes, ir.contiguous_strides(sizes))
            machine.copy(target, machine.constant(data[name], dense, False, ir.DEFAULT_ALIGNMENT), False)
    return inputs


def _symbols(type: ir.TensorType, shape: tuple[int, ...]) -> dict[str, Number]:
    return {dim.name: size for dim, size in zip(type.sizes, shape) if isinstance(dim, Sym)}
