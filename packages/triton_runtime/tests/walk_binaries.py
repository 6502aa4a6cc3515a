"""Computes the launch of a compiled kernel from an artifact with `wrapper_ir` alone, as an emitter would.

Run as a program: `walk_binaries.py FILE KERNEL TARGET ARGUMENTS`, the arguments in JSON; a tensor is
`[address, sizes, strides]`. Prints JSON of the driver's arguments. Scratch memory of the launch is printed as
its size.
"""

from __future__ import annotations

import json
import sys

from wrapper_ir import ir, load
from wrapper_ir.artifact import Artifact
from wrapper_ir.expr import evaluate
from wrapper_ir.json.kernel_hash import find_binary

Argument = int | float | list[int | list[int]]


def walk(artifact: Artifact, name: str, target: str, args: list[Argument]) -> dict[str, object]:
    """Grid, block, facts and parameters of a launch of the kernel's first config."""
    kernel = artifact.program.kernel(name)
    assert isinstance(kernel, ir.TritonKernel)
    config = kernel.configs[0]
    binary = find_binary(artifact.binaries, kernel, config, target)
    assert binary is not None
    names = [*(param.name for param in kernel.params), *kernel.grid_params]
    numbers = {n: value for n, value in zip(names, args, strict=True) if isinstance(value, int | float)}
    grid = [int(evaluate(size, numbers)) for size in ir.bound_grid(kernel, config)]
    blocks = [size * count for size, count in zip(grid, binary.facts.cluster, strict=True)]
    facts = binary.facts
    return {
        "symbol": facts.symbol,
        "kind": binary.kind.value,
        "grid": blocks,
        "block": [facts.threads, 1, 1],
        "shared": facts.shared_bytes,
        "cluster": facts.cluster,
        "cooperative": facts.cooperative,
        "dependent": facts.dependent_launch,
        "params": [_param(param, args, binary, blocks) for param in binary.params],
    }


def _param(
    param: ir.DriverParam, args: list[Argument], binary: ir.KernelBinary, blocks: list[int]
) -> list[object]:
    """Kind, bytes, and the passed value."""
    return [param.kind.value, param.nbytes, _value(param, args, binary, blocks[0] * blocks[1] * blocks[2])]


def _value(param: ir.DriverParam, args: list[Argument], binary: ir.KernelBinary, blocks: int) -> object:
    scratch = {
        ir.DriverParamKind.SCRATCH: binary.facts.scratch,
        ir.DriverParamKind.PROFILE: binary.facts.profile,
    }.get(param.kind)
    if scratch is not None:
        return [scratch.nbytes * blocks, scratch.align]
    arg = args[param.position]
    match param.kind:
        case ir.DriverParamKind.NUMBER:
            return arg
        case ir.DriverParamKind.ZERO:
            return 0
        case _:
            return _of_tensor(param, arg)


def _of_tensor(param: ir.DriverParam, arg: Argument) -> object:
    assert isinstance(arg, list)
    address, sizes, strides = arg
    assert isinstance(sizes, list)
    assert isinstance(strides, list)
    match param.kind:
        case ir.DriverParamKind.SIZE:
            return sizes[param.dim]
        case ir.DriverParamKind.STRIDE:
            return strides[param.dim]
        case ir.DriverParamKind.TENSOR_MAP:
            assert param.map is not None
            return [address, sizes, strides, param.map.box, param.map.element_type, param.map.swizzle]
        case _:
            return address


if __name__ == "__main__":
    made = walk(load(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
    strangers = sorted({"torch", "triton", "numpy", "triton_runtime"} & sys.modules.keys())
    print(json.dumps({**made, "imported": strangers}))
