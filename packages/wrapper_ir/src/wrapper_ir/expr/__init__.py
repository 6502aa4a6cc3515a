"""Symbolic sizes: small frozen interned nodes with their own parser, printers and range analysis.

A node is a leaf, or an `Operator` applied to operands; `operators` has a row for each. `build` and `logic` make
expressions. sympy is used by `sympy_bridge` alone, which is
imported by whoever needs it.
"""

# Every module's own `__all__` says what is public; naming it here again would be a second list.
from wrapper_ir.expr.base import *
from wrapper_ir.expr.build import *
from wrapper_ir.expr.cpp import *
from wrapper_ir.expr.evaluate import *
from wrapper_ir.expr.interval import *
from wrapper_ir.expr.leaves import *
from wrapper_ir.expr.logic import *
from wrapper_ir.expr.normal import *
from wrapper_ir.expr.operators import OPERATORS as OPERATORS
from wrapper_ir.expr.parse import *
from wrapper_ir.expr.printer import *
from wrapper_ir.expr.python import *
from wrapper_ir.expr.ranges import *
from wrapper_ir.expr.rewrite import *
from wrapper_ir.expr.spelling import *
from wrapper_ir.expr.text import *
