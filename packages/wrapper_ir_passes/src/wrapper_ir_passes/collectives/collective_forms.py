"""Forms of collectives, and torch's operators for them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from wrapper_ir import ir


class Form(enum.Enum):
    """The form of a collective."""

    LIBRARY = "library"
    """The collective is unchanged."""
    ONE_SHOT = "symm_mem::one_shot_all_reduce_out"
    """Each process reads all parts and sums them."""
    TWO_SHOT = "symm_mem::two_shot_all_reduce_out"
    """Each process sums its share, then reads the others'."""
    ONE_SHOT_SCATTER = "symm_mem::reduce_scatter_out"
    """Each process reads all parts of its share and sums them."""
    REDUCE_SCATTER = "symm_mem::_low_contention_reduce_scatter"
    ALL_GATHER = "symm_mem::_low_contention_all_gather"
    GATHER_MATMULS = "symm_mem::fused_all_gather_matmul"
    """A gather and the matmuls of its result are one operator, which multiplies each part while the next one
    is copied.
    """
    MATMUL_SCATTER = "symm_mem::fused_matmul_reduce_scatter"
    """A reduce-scatter and the matmul of its operand are one operator, which sends each part while the next
    one is multiplied.
    """

    @property
    def is_kernel(self) -> bool:
        """True for one kernel over an operand in symmetric memory; its end is that of the collective."""
        return self in (Form.ONE_SHOT, Form.TWO_SHOT, Form.ONE_SHOT_SCATTER)

    @property
    def writes_operand(self) -> bool:
        """Returns whether the operand has other content afterwards, according to the schema."""
        return self.is_kernel and _SCHEMAS[self][0].startswith("(Tensor(a!) input")


_SCHEMAS: Mapping[Form, tuple[str, tuple[str, ...]]] = {
    Form.ONE_SHOT: (
        "(Tensor input, str reduce_op, str group_name, Tensor(a!) out) -> Tensor(a!)",
        ("input",),
    ),
    Form.TWO_SHOT: (
        "(Tensor(a!) input, str reduce_op, str group_name, Tensor(b!) output) -> Tensor(b!)",
        ("input",),
    ),
    Form.ONE_SHOT_SCATTER: (
        "(Tensor(a!) input, str group_name, bool split_last_dim, Tensor(b!) output) -> Tensor(b!)",
        ("input",),
    ),
    Form.REDUCE_SCATTER: ("(Tensor tensor, str reduce_op, str group_name) -> Tensor", ()),
    Form.ALL_GATHER: ("(Tensor tensor, str group_name) -> Tensor", ()),
    Form.GATHER_MATMULS: (
        "(Tensor A, Tensor[] Bs, int gather_dim, str group_name, *, bool return_A=True) -> (Tensor?, "
        "Tensor[])",
        (),
    ),
    Form.MATMUL_SCATTER: (
        "(Tensor A, Tensor B, str reduce_op, int scatter_dim, str group_name) -> Tensor",
        (),
    ),
}
"""By form, the schema of its operator, and the arguments that must be symmetric memory; equal in torch 2.11
to 2.15.
"""


def with_forms_declared(program: ir.Program) -> ir.Program:
    """The program with a declaration of each of these operators that it uses."""
    targets = {op.target for op in program.ops_of(ir.CallExtern, ir.CollectiveStart)}
    missing = targets - {e.name for e in program.externs}
    new = [_extern(form) for form in Form if form.value in missing]
    return dataclasses.replace(program, externs=(*program.externs, *new)) if new else program


def _extern(form: Form) -> ir.ExternDef:
    schema, symmetric = _SCHEMAS[form]
    tags = () if symmetric else (ir.ExternTag.PYTHON_ONLY,)  # torch has written the others in Python
    return ir.ExternDef(
        schema=form.value + schema, tags=(ir.ExternTag.COLLECTIVE, *tags), symmetric=symmetric
    )
