"""Expressions by kind: each operator with values without a result, or with intermediate results beyond float
or int64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from wrapper_ir.expr import Number

INF, NAN = math.inf, math.nan
Env = Mapping[str, Number]
EXPECTED: tuple[tuple[str, Env, Number | str], ...] = (
    # operands that do not matter, and that do
    ("where(p, 1, 8 // a)", {"p": True, "a": 0}, 1),
    ("where(p, 1, 8 // a)", {"p": False, "a": 0}, "WIR402"),
    ("where(p, 1, 8 % a)", {"p": False, "a": 0}, "WIR402"),
    ("where(p, 1, ceildiv(8, a))", {"p": False, "a": 0}, "WIR402"),
    ("where(p, 1, 8 // a + 2*b)", {"p": False, "a": 0}, "WIR402"),
    ("where(p, 1, where(a == 0, 8 // a, 3))", {"p": True, "a": 0}, 1),
    ("where(p, 1, where(a == 0, 8 // a, 3))", {"p": False, "a": 0}, "WIR402"),
    ("where(p, 1, where(a == 0, 8 // a, 3))", {"p": False, "a": 2}, 3),
    ("where(p, 1, to_int(f))", {"p": False, "f": NAN}, "WIR402"),
    ("where(p, 1, to_int(f))", {"p": True, "f": NAN}, 1),
    ("where(p, 1, b**a)", {"p": False, "a": -1}, "WIR402"),
    ("where(p, 1, b**a)", {"p": True, "a": -1}, 1),
    ("where(8 // a > 1, 1, 2)", {"a": 0}, "WIR402"),
    ("where(p, 1.0, sqrt(f))", {"p": False, "f": -1.0}, "WIR402"),
    ("where(p, 1.0, log(f))", {"p": False, "f": 0.0}, "WIR402"),
    ("where(p, 1.0, f**g)", {"p": False, "f": -8.0, "g": 0.5}, "WIR402"),
    ("where(p, 1.0, f / g)", {"p": False, "g": 0.0}, "WIR402"),
    ("where(p, 1.0, f / g)", {"p": True, "g": 0.0}, 1.0),
    ("p or 8 // a > 1", {"p": True, "a": 0}, True),
    ("p or 8 // a > 1", {"p": False, "a": 0}, "WIR402"),
    ("p and 8 // a > 1", {"p": False, "a": 0}, False),
    ("p and 8 // a > 1", {"p": True, "a": 0}, "WIR402"),
    ("p or sqrt(f) > 0.0", {"p": False, "f": -1.0}, "WIR402"),
    ("p or not 8 // a > 1 or b > 2", {"p": False, "a": 0}, "WIR402"),
    ("not (p or 8 // a > 1)", {"p": True, "a": 0}, False),
    ("a == 0 or 8 // a > 1 and 8 % a == 0", {"a": 0}, True),
    ("min(p, 8 // a > 1)", {"p": False, "a": 0}, "WIR402"),
    # floats as ints
    ("to_int(f)", {"f": 1e300}, "WIR408"),
    ("to_int(f)", {"f": NAN}, "WIR402"),
    ("to_int(f)", {"f": -INF}, "WIR402"),
    ("to_int(f)", {"f": -9223372036854775808.0}, -(2**63)),
    ("to_int(f)", {"f": 9223372036854775808.0}, "WIR408"),
    ("round(f)*round(f)", {"f": 2.0**32}, "WIR408"),
    ("to_int(f) // floor(f + 0.5)", {"f": -0.5}, "WIR402"),
    ("round(f)", {"f": 2.5}, 2),
    ("floor(f) + ceil(f)", {"f": -0.5}, -1),
    ("bit_and(a, f)", {"a": 6, "f": NAN}, "WIR402"),
    ("bit_and(a, f) + bit_or(p, a)", {"a": 6, "f": 3.5}, 9),
    # ints
    ("a**b", {"a": 2, "b": -1}, "WIR402"),
    ("a**b", {"a": 1, "b": -1}, "WIR402"),
    ("a**b", {"a": -1, "b": 2**62 + 1}, -1),
    ("a**b", {"a": 2, "b": 64}, "WIR408"),
    ("a**b", {"a": 2, "b": 2**62}, "WIR408"),
    ("a // b", {"a": -(2**63), "b": -1}, "WIR408"),
    ("a % b", {"a": -(2**63), "b": -1}, 0),
    ("abs(a)", {"a": -(2**63)}, "WIR408"),
    ("where(p, 4611686018427387904, 1)*4", {}, "WIR408"),
    ("where(p, 4611686018427387904, 1)*4", {"p": False}, 4),
    ("p + p + a", {"a": 2}, 4),
    # intermediate results beyond int64
    ("a*b // b", {"a": 2**62, "b": 6}, 2**62),
    ("a*b // b", {"a": -(2**63), "b": -3}, -(2**63)),
    ("a*b // 1", {"a": 2**62, "b": 2}, "WIR408"),
    ("ceildiv(a*b + 1, b)", {"a": 2**62, "b": 7}, 2**62 + 1),
    ("-a*b % 1000003", {"a": 2**62, "b": 6}, -(2**62) * 6 % 1000003),
    ("a + b - 9223372036854775807", {"a": 2**63 - 1, "b": 5}, 5),
    ("a*a - b*b", {"a": 2**62 + 1, "b": 2**62}, "WIR408"),
    ("a*a - b*b", {"a": 2**61 + 1, "b": 2**61}, 2**62 + 1),
    ("abs(a) % 10", {"a": -(2**63)}, 8),
    ("where(p, a*2, b) // 2", {"a": 2**62}, 2**62),
    ("min(a*b, b)", {"a": 2**62, "b": 6}, 6),
    ("bit_and(a*a, 255)", {"a": 2**40 + 3}, 9),
    ("to_int(f) // a", {"f": 2.0**70, "a": 2**10}, 2**60),
    ("b**a // b**a", {"a": 40, "b": 8}, 1),
    ("a*b / b", {"a": 2**62 + 1, "b": 7}, float(2**62)),
    ("to_float(a*b)", {"a": 2**62, "b": 2**62}, 2.0**124),
    ("a*b > b", {"a": 2**62, "b": 7}, True),
    ("a*b > f", {"a": 2**62, "b": 8, "f": 2.0**64}, True),
    ("a*b == f", {"a": 2**62, "b": 8, "f": 2.0**65}, True),
    ("a*b + f", {"a": 2**62, "b": 8, "f": 0.0}, 2.0**65),
    ("0 / a", {"a": -(2**60)}, -0.0),
    ("where(a > 1, p, 3)", {"a": 2}, 1),
    # floats
    ("f / g", {"g": 0.0}, "WIR402"),
    ("f / g", {"f": INF, "g": INF}, NAN),
    ("f // g", {"g": -0.0}, "WIR402"),
    ("f % g", {"g": 0.0}, "WIR402"),
    ("f % g", {"f": -7.5, "g": 2.0}, 0.5),
    ("ceildiv(f, g)", {"f": 7.5, "g": 2.0}, 4.0),
    ("ceildiv(f, 4)", {"f": 4.5}, 2.0),
    ("a / b", {"b": 0}, "WIR402"),
    ("a / b", {"a": 2**62 + 1, "b": 3}, (2**62 + 1) / 3),
    ("a / b", {"a": -(2**63), "b": 2**63 - 1}, -(2**63) / (2**63 - 1)),
    ("f*g", {"f": 1e300, "g": 1e300}, INF),
    ("exp(f)", {"f": 1000.0}, "WIR402"),
    ("exp(f)", {"f": INF}, INF),
    ("sqrt(f)", {"f": -1.0}, "WIR402"),
    ("sqrt(f)", {"f": -0.0}, -0.0),
    ("log(f)", {"f": 0.0}, "WIR402"),
    ("log2(f)", {"f": -1.0}, "WIR402"),
    ("sin(f)", {"f": INF}, "WIR402"),
    ("cosh(f)", {"f": 1000.0}, "WIR402"),
    ("acos(f)", {"f": 1.5}, "WIR402"),
    ("acos(f)", {"f": NAN}, NAN),
    ("f**g", {"f": -8.0, "g": 1 / 3}, "WIR402"),
    ("f**g", {"f": -8.0, "g": 3.0}, -512.0),
    ("f**g", {"f": 0.0, "g": -1.0}, "WIR402"),
    ("f**g", {"f": 1e200, "g": 2.0}, "WIR402"),
    ("f**g", {"f": NAN, "g": 0.0}, 1.0),
    ("a**f", {"a": -2, "f": 0.5}, "WIR402"),
    ("round_to(f, b)", {"f": 2.675, "b": 2}, 2.67),
    ("round_to(f, b)", {"f": 2.5e22, "b": -22}, 2e22),
    ("round_to(f, b)", {"f": 1.7e308, "b": -308}, "WIR402"),
    ("round_to(f, b)", {"f": -4.0, "b": -1}, -0.0),
    ("round_to(f, b)", {"f": 15.0, "b": -1}, 20.0),
    ("round_to(f, b)", {"f": 51.0, "b": -2}, 100.0),
    ("min(a, f)", {"a": 2, "f": NAN}, 2.0),
    # ints beside floats
    ("a == f", {"a": 2**53 + 1, "f": 2.0**53}, False),
    ("a > f", {"a": 2**53 + 1, "f": 2.0**53}, True),
    ("f < a", {"a": 2**63 - 1, "f": 2.0**63}, False),
    ("a < f", {"a": 2**63 - 1, "f": 2.0**63}, True),
    ("a != f", {"a": 1, "f": NAN}, True),
    ("a >= f", {"a": 1, "f": NAN}, False),
    ("f <= 9007199254740993", {"f": 2.0**53 + 2}, False),
    ("a + b + f", {"a": 2**53, "b": 1, "f": 1.0}, float(2**53 + 1) + 1.0),
    ("a*b*f", {"a": 2**53 + 1, "b": 3, "f": 1.0}, float(3 * (2**53 + 1))),
    ("to_float(a)", {"a": 2**53 + 1}, 2.0**53),
)
"""Expressions with values of their symbols (1 by default), and their results."""

ENVIRONMENTS: tuple[Env, ...] = (
    {"a": 0, "b": 5, "f": -0.5, "g": 0.0, "p": False},
    {"a": 2**62, "b": -1, "f": 1e300, "g": NAN, "p": True},
    {"a": -(2**63), "b": -1, "f": INF, "g": 2.0**32, "p": True},
    {"a": 7, "b": -3, "f": -8.0, "g": 1 / 3, "p": True},
    {"a": 2**53 + 1, "b": 64, "f": 2.0**53, "g": -2.5, "p": False},
    {"a": 0, "b": 0, "f": -INF, "g": -0.0, "p": True},
    {"a": -7, "b": 2, "f": 6.5, "g": -1e200, "p": False},
)
_INT = (
    "where(p, 1, 8 // a)", "where(p, 8 // a, 1)", "to_int(f)", "floor(f)", "ceil(f)", "round(f)", "round(g)*round(g)",
    "to_int(f) // floor(f+0.5)", "to_int(f) // to_int(g)", "a**b", "a**abs(b)", "2**b", "abs(a)", "-a", "a//b", "a % b",
    "ceildiv(a,b)", "a*b//b", "bit_and(to_int(f), 3)", "bit_or(a, b)", "bit_xor(a, p)", "where(p, to_int(g), 0)",
    "min(a, 8//a)", "max(a, b, 8 % b)", "where(a != 0 and 8//a > 1, 1, 2)", "where(a==0 or 8//a>1, 1, 2)", "to_int(p)", "a + b",
    "p + p + a", "to_int(g) % 7", "floor(f) - ceil(f)", "to_int(f) + to_int(f)", "a**3", "where(f > 0.0, to_int(sqrt(f)), -1)",
    "a - a*2 + a", "b*a*a // a", "where(p, b, to_int(f)) + 1", "abs(p) + min(p, b)", "floor(p) + round(a)", "-where(p, 3, 4)*a",
    "bit_and(a*4, b*a)", "to_int(f)*to_int(f) % 1000003", "a**20 % 1000003", "abs(a*a) // max(a, 1)", "a*a*a // (b*b + 1)",
    "round(f*g) % 97",
)  # fmt: skip
_FLOAT = (
    "f / g", "a / b", "f // g", "f % g", "ceildiv(f, g)", "f**g", "g**f", "f**0.5", "0.0**f", "2.0**f", "where(p, 1.0, 1.0/g)",
    "where(p, sqrt(f), 1.0)", "where(p, 1.0, log(f))", "where(p, 1.0, f**0.5)", "round_to(f, 1)", "round_to(g, b)",
    "round_to(f, -b)", "to_float(a)", "to_float(a*4)", "f*f", "min(f, g)", "max(a, f)", "a + f", "a*f", "a % f", "a // f",
    "f + g", "-f", "a**f", "f**b", "abs(f)", "where(p, a, f)", "min(a, f)", "to_float(p)/f", "f*0.1", "a / 3", "a / f",
    "a*a + f", "a*a*f", "a*b / 3", "a + b + f - 3", "-a*f", "f / 2.0", "round_to(a*a, -3)", "p*f", "p / a", "f % 2",
    *(f"{name}({x})" for name in ("sqrt", "exp", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan",
                                  "asinh") for x in ("f", "b")),
)  # fmt: skip
_BOOL = (
    *(f"a {sign} f" for sign in ("==", "!=", "<", "<=", ">", ">=")), *(f"f {sign} a*4" for sign in ("==", "!=", "<", ">=")),
    "a == f or 8 // a > 1", "p or 8 // a > 1", "p and 8 // a > 1", "not p and 8//a == 1", "to_bool(f)", "to_bool(g)",
    "to_bool(a*4)", "f == g", "f < g", "p == a", "p < f", "f > to_float(a)", "p or sqrt(f) > 0.0", "p or log(f) > 0.0",
    "p or to_int(f) > 1", "p and to_int(f) > 1", "p or f**0.5 > 1.0", "a*4 > b", "to_int(f) > b", "to_int(f) == f",
    "round(f) >= a", "a and p", "not (8//a > 1)", "min(p, a > b)", "max(p, 8//a > 1)", "where(p, a > b, f < g)", "a*a == b*b",
    "p == (a < b)", "p != (8//a > 1)",
)  # fmt: skip
EXPRESSIONS: Mapping[str, tuple[str, ...]] = {"int": _INT, "float": _FLOAT, "bool": _BOOL}
"""By their kinds."""
BEYOND_128_BITS = frozenset(
    ("to_int(f) // floor(f+0.5)", "to_int(f) // to_int(g)", "bit_and(to_int(f), 3)", "to_int(g) % 7", "floor(f) - ceil(f)",
     "to_int(f)*to_int(f) % 1000003", "a**20 % 1000003", "round(f*g) % 97", "p and to_int(f) > 1", "to_int(f) > b",
     "to_int(f) == f", "round(f) >= a")
)  # fmt: skip
"""Expressions with intermediate results beyond 128 bits in some environment, which C++ alone refuses with WIR408."""
