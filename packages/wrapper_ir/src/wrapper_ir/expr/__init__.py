"""Symbolic sizes: small frozen interned nodes with their own parser, printers and range analysis.

A node is a leaf, or an `Operator` applied to operands; `operators` has a row for each. `build` and `logic` make
expressions. sympy is used by `sympy_bridge` alone, which is
imported by whoever needs it.
"""

from wrapper_ir.expr.base import Expr, ExprLike, SymKind
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
    truediv,
    where,
)
from wrapper_ir.expr.cpp import CPP_HELPERS, to_cpp
from wrapper_ir.expr.evaluate import compile_python, evaluate
from wrapper_ir.expr.interval import Bound, Interval
from wrapper_ir.expr.leaves import Atom, Bool, Float, Int, Item, OffsetOf, SizeOf, StrideOf, Sym
from wrapper_ir.expr.logic import (
    and_,
    apply,
    eq,
    ge,
    gt,
    le,
    lt,
    ne,
    not_,
    or_,
    to_bool,
    to_float,
    to_int,
)
from wrapper_ir.expr.nodes import NODE_TYPES, Node
from wrapper_ir.expr.normal import Monomial, Poly, expand
from wrapper_ir.expr.operator_row import Apply, Level, Number, Operator, Operators, Spelling
from wrapper_ir.expr.operators import OPERATORS
from wrapper_ir.expr.parse import ExprParser, parse_expr
from wrapper_ir.expr.printer import LeafName
from wrapper_ir.expr.python import to_python
from wrapper_ir.expr.ranges import bounds, prove_eq, prove_le, prove_nonneg
from wrapper_ir.expr.rewrite import map_atoms, rebuild, substitute
from wrapper_ir.expr.text import print_expr
from wrapper_ir.expr.tokens import Token, TokenStream

__all__ = [
    "CPP_HELPERS",
    "NODE_TYPES",
    "OPERATORS",
    "Apply",
    "Atom",
    "Bool",
    "Bound",
    "Expr",
    "ExprLike",
    "ExprParser",
    "Float",
    "Int",
    "Interval",
    "Item",
    "LeafName",
    "Level",
    "Monomial",
    "Node",
    "Number",
    "OffsetOf",
    "Operator",
    "Operators",
    "Poly",
    "SizeOf",
    "Spelling",
    "StrideOf",
    "Sym",
    "SymKind",
    "Token",
    "TokenStream",
    "add",
    "and_",
    "apply",
    "as_expr",
    "as_int",
    "bounds",
    "ceildiv",
    "compile_python",
    "eq",
    "evaluate",
    "expand",
    "floordiv",
    "ge",
    "gt",
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
    "parse_expr",
    "pow_",
    "print_expr",
    "prove_eq",
    "prove_le",
    "prove_nonneg",
    "rebuild",
    "sub",
    "substitute",
    "to_bool",
    "to_cpp",
    "to_float",
    "to_int",
    "to_python",
    "truediv",
    "where",
]
