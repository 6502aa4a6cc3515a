"""Ids of the symmetric memory that a captured program allocates."""

from __future__ import annotations

import dataclasses

from wrapper_ir import ir
from wrapper_ir.artifact.agreement import allocation_ids


def with_allocation_ids(program: ir.Program) -> ir.Program:
    """The program with an id in place of each number of a communication buffer. Ids follow from the program with the numbers: they are
    equal on all processes that capture it, and no other program has them. Inductor's own are drawn at random."""
    spaces = [op.result.type.space for op in program.ops_of(ir.AllocStorage) if op.result.type.is_symmetric]
    if not spaces:
        return program
    ids: dict[ir.MemorySpace, int] = dict(zip(spaces, allocation_ids(program), strict=False))

    def named(value: ir.Value) -> ir.Value:
        type = value.type
        if not isinstance(type, ir.StorageType) or type.space not in ids:
            return value
        space = dataclasses.replace(type.space, alloc_id=ids[type.space])
        return ir.Value(value.name, dataclasses.replace(type, space=space))

    return program.with_functions(ir.map_function(f, named) for f in program.functions)
