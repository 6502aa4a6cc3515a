"""Symbolic sizes: immutable interned nodes with a parser, printers and range analysis.

A node is a leaf, or an `Operator` applied to operands; `operators` has a row for each operator. `build` and
`logic` construct expressions. Only `sympy_bridge` uses sympy, and nothing here imports it.
"""

from wrapper_ir.expr.base import (
    MANY,
    Apply,
    Atom,
    Expr,
    ExprLike,
    Floats,
    Number,
    Operator,
    Operators,
    SymKind,
    intern,
)
from wrapper_ir.expr.build import (
    add,
    as_expr,
    as_int,
    ceildiv,
    floordiv,
    max_,
    min_,
    mod,
    mul,
    neg,
    pow_,
    sub,
    sum_of,
    truediv,
    where,
)
from wrapper_ir.expr.cpp import CPP_HELPERS, to_cpp
from wrapper_ir.expr.evaluate import evaluate
from wrapper_ir.expr.interval import EVERYTHING, FALSE, TRUE, TRUTH, Bound, Interval
from wrapper_ir.expr.leaves import ATOM_WORDS, CONSTANTS, RESERVED_NAMES, Bool, Float, Int, Sym
from wrapper_ir.expr.logic import and_, apply, eq, ge, gt, le, lt, ne, not_, or_, to_bool, to_float, to_int
from wrapper_ir.expr.normal import Monomial, Poly, accumulate, expand, times
from wrapper_ir.expr.operators import OPERATORS as OPERATORS
from wrapper_ir.expr.parse import ExprParser
from wrapper_ir.expr.printer import LeafName, Printer, own_name
from wrapper_ir.expr.python import to_python
from wrapper_ir.expr.ranges import bounds, prove_eq, prove_le, prove_nonneg
from wrapper_ir.expr.rewrite import map_atoms, rebuild, substitute
from wrapper_ir.expr.spelling import Coercion, Level, Slot, Spelling
from wrapper_ir.expr.text import print_expr

__all__ = [
    "ATOM_WORDS",
    "CONSTANTS",
    "CPP_HELPERS",
    "EVERYTHING",
    "FALSE",
    "MANY",
    "OPERATORS",
    "RESERVED_NAMES",
    "TRUE",
    "TRUTH",
    "Apply",
    "Atom",
    "Bool",
    "Bound",
    "Coercion",
    "Expr",
    "ExprLike",
    "ExprParser",
    "Float",
    "Floats",
    "Int",
    "Interval",
    "LeafName",
    "Level",
    "Monomial",
    "Number",
    "Operator",
    "Operators",
    "Poly",
    "Printer",
    "Slot",
    "Spelling",
    "Sym",
    "SymKind",
    "accumulate",
    "add",
    "and_",
    "apply",
    "as_expr",
    "as_int",
    "bounds",
    "ceildiv",
    "eq",
    "evaluate",
    "expand",
    "floordiv",
    "ge",
    "gt",
    "intern",
    "le",
    "lt",
    "map_atoms",
    "max_",
    "min_",
    "mod",
    "mul",
    "ne",
    "neg",
    "not_",
    "or_",
    "own_name",
    "pow_",
    "print_expr",
    "prove_eq",
    "prove_le",
    "prove_nonneg",
    "rebuild",
    "sub",
    "substitute",
    "sum_of",
    "times",
    "to_bool",
    "to_cpp",
    "to_float",
    "to_int",
    "to_python",
    "truediv",
    "where",
]
