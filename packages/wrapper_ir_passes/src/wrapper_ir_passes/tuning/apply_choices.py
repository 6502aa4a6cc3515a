"""Writes choices into a program: of the config of a kernel, and of one of the kernels of a multi-kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from wrapper_ir import ir
from wrapper_ir_passes.cleanup.dead_ops import EliminateDeadOps


def with_choices(
    program: ir.Program, configs: Mapping[str, ir.TritonConfig], variants: Mapping[str, int]
) -> ir.Program:
    """Returns the program with fixed choices.

    `configs`: Triton kernels by name get only this config, and no rule for more. `variants`: launches of
    multi-kernels become launches of the kernel with this index; definitions that only the others used are
    removed.
    """
    kernels = {k.name: k for k in program.kernels}
    fixed_program = program.with_functions(
        f.with_body(_chosen(op, kernels, variants) for op in f.body) for f in program.functions
    )
    result = dataclasses.replace(fixed_program, kernels=tuple(_fixed(k, configs) for k in program.kernels))
    return EliminateDeadOps().run(result) if variants else result


def _fixed(kernel: ir.KernelDef, configs: Mapping[str, ir.TritonConfig]) -> ir.KernelDef:
    match kernel:
        case ir.TritonKernel(name=name) if name in configs:
            return dataclasses.replace(kernel, configs=(configs[name],), derive=())
        case _:
            return kernel


def _chosen(op: ir.Op, kernels: Mapping[str, ir.KernelDef], variants: Mapping[str, int]) -> ir.Op:
    match op:
        case ir.Launch(kernel=name) if name in variants:
            return _with_variant(op, kernels[name], variants[name])
        case _:
            return op


def _with_variant(op: ir.Launch, multi: ir.KernelDef, index: int) -> ir.Launch:
    """Replaces the launch of a multi-kernel by the launch of one of its kernels."""
    assert isinstance(multi, ir.MultiKernel)
    variant = multi.variants[index]
    tensors = [i for i, p in enumerate(multi.params) if p.kind.takes_tensor]
    extents = dict(zip(tensors, op.extents))
    return dataclasses.replace(
        op,
        kernel=variant.kernel,
        args=tuple(op.args[i] for i in variant.args),
        extents=tuple(extents[i] for i in variant.args if i in extents),
        grid=tuple(op.grid[i] for i in variant.grid),
    )
