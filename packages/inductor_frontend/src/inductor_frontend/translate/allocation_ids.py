"""Assigns ids to symmetric memory that a captured program allocates."""

from __future__ import annotations

import dataclasses

from wrapper_ir import ir
from wrapper_ir.artifact.agreement import allocation_ids


def with_allocation_ids(program: ir.Program) -> ir.Program:
    """Returns the program with an id in place of each communication buffer's number.

    Ids are derived from the program with the numbers. They are equal on all processes that capture it, and
    unique to the program. Inductor's own ids are random.
    """
    spaces = [op.result.type.space for op in program.ops_of(ir.AllocStorage) if op.result.type.is_symmetric]
    if not spaces:
        return program
    ids: dict[ir.MemorySpace, int] = dict(zip(spaces, allocation_ids(program), strict=False))

    def with_id(value: ir.Value) -> ir.Value:
        type = value.type
        if not isinstance(type, ir.StorageType) or type.space not in ids:
            return value
        space = dataclasses.replace(type.space, alloc_id=ids[type.space])
        return ir.Value(value.name, dataclasses.replace(type, space=space))

    return program.with_functions(ir.map_function(f, with_id) for f in program.functions)
