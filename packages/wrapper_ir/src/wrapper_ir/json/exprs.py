"""Expressions as JSON.

An expression is an integer, a truth value, the name of a symbol, `{"float": 1.5}` (or `"nan"`, `"inf"`,
`"-inf"`), or a list of a tag and its operands: `["add", "s0", 1]`, `["<", "s0", 8]`, `["size", "x", 0]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from wrapper_ir import ir
from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr import OPERATORS, Bool, Expr, Float, Int, Operators, Sym, SymKind
from wrapper_ir.json.codec import Schema, fixed_array, object_schema, ref
from wrapper_ir.json.decode import MAX_DEPTH, array, fault, integer, obj, string, truth
from wrapper_ir.support.json_value import Json

_Node = TypeVar("_Node", bound=Expr)

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode_number(x: int | float | bool | None) -> Json:
    """Returns the JSON of a number, which preserves its kind."""
    if type(x) is not float:
        return x
    return {"float": x if math.isfinite(x) else str(x)}


def encode_expr(e: Expr) -> Json:
    """Returns the JSON of an expression."""
    if e.op is not None:
        return [e.op.name, *map(encode_expr, e.args)]
    match e:
        case Sym(name):
            return name
        case ir.DimAtom(value, dim):
            return [e.word, value.name, dim]
        case ir.ValueAtom(value):
            return [e.word, value.name]
        case _:
            return encode_number(e.constant)


class ExprDecoder:
    """Decodes expressions over the declared symbols and the values in scope."""

    def __init__(self, operators: Operators = OPERATORS) -> None:
        self._operators = operators
        self.kinds: dict[str, SymKind] = {}
        self.values: dict[str, ir.Value] = {}
        self.depth = 0
        self._by_json: dict[type, Callable[[Json], Expr]] = {
            int: lambda x: self._made(lambda: Int(integer(x))),
            bool: lambda x: Bool(truth(x)),
            str: self._symbol,
            dict: self.float,
            list: self._list,
        }

    def use(self, x: Json) -> ir.Value:
        """Returns the value of this name; an undefined one is WIR552."""
        value = self.values.get(x) if type(x) is str else None
        return value if value is not None else fault(f"value {string(x)!r} is not defined here", "WIR552")

    def symbol(self, x: Json) -> str:
        """Returns the name of a declared symbol; an undeclared one is WIR551."""
        name = string(x)
        return name if self.kinds.get(name) else fault(f"symbol {name!r} is not declared", "WIR551")

    def expr(self, x: Json) -> Expr:
        """Decodes an expression."""
        read = self._by_json.get(type(x))
        return read(x) if read else fault("expected an expression")

    def float(self, x: Json) -> Float:
        """Decodes `{"float": 1.5}`."""
        o = obj(x)
        match o:
            case {"float": bool()}:
                pass
            case {"float": int() | float() as number, **rest} if not rest:
                return Float(_finite(number))
            case {"float": str(word), **rest} if word in _NOT_FINITE and not rest:
                return Float(_NOT_FINITE[word])
        if len(o) == 1 and "float" not in o:
            fault(f"unknown key {next(iter(o))[:40]!r}", "WIR522")
        return fault('expected an expression; a float is {"float": 1.5}, or "nan", "inf", "-inf" in it')

    def _symbol(self, x: Json) -> Sym:
        name = self.symbol(x)
        kind = self.kinds.get(name) or SymKind.INT
        return self._made(lambda: Sym(name, kind), "WIR551")

    def _made(self, make: Callable[[], _Node], code: str = "WIR521") -> _Node:
        try:
            return make()
        except ExpressionError as error:
            fault(error.message, code)

    def _list(self, x: Json) -> Expr:
        items = array(x)
        tag, fields = string(items[0] if items else fault("expected an expression")), items[1:]
        self.depth += 1
        if self.depth > MAX_DEPTH:
            fault(f"nests deeper than {MAX_DEPTH}", "WIR553")
        e = self._node(tag, fields)
        self.depth -= 1
        return e

    def _node(self, tag: str, fields: list[Json]) -> Expr:
        if tag in ir.DIM_ATOMS and len(fields) == 2:
            dim = integer(fields[1])
            return (
                ir.DIM_ATOMS[tag](self.use(fields[0]), dim) if dim >= 0 else fault("a dimension is negative")
            )
        if tag in ir.VALUE_ATOMS and len(fields) == 1:
            return ir.VALUE_ATOMS[tag](self.use(fields[0]))
        op = self._operators.by_name.get(tag)
        if op is None:
            fault(f"unknown expression {tag[:40]!r} of {len(fields)} operands", "WIR522")
        if len(fields) < 2 if op.arity == 0 else len(fields) != op.arity:
            fault(f"{tag} takes {op.arity or 'two or more'} operands, found {len(fields)}")
        return op(*[self.expr(f) for f in fields])


def _finite(number: float | int) -> float:
    try:
        x = float(number)
    except OverflowError:
        x = math.inf
    return x if math.isfinite(x) else fault("this number does not fit a float")


def _tagged(tags: list[str], *operands: Schema) -> Schema:
    return fixed_array({"enum": list[Json](sorted(tags))}, *operands)


def expr_schemas() -> dict[str, Schema]:
    """Returns the definitions of expressions and floats."""
    name: Schema = {"type": "string"}
    index: Schema = {"type": "integer", "minimum": 0}
    expr = ref("expr")
    by_count: dict[int, list[str]] = {}
    for op in OPERATORS.rows:
        by_count.setdefault(op.arity, []).append(op.name)
    nodes = [_tagged(tags, *[expr] * count) for count, tags in sorted(by_count.items())]
    nodes[0] |= {"items": expr, "minItems": 3} if 0 in by_count else {}  # operators of any number of operands
    atoms = [_tagged([*ir.DIM_ATOMS], name, index), _tagged([*ir.VALUE_ATOMS], name)]
    leaves: list[Schema] = [{"type": "integer"}, {"type": "boolean"}, name, ref("float")]
    number: Schema = {"anyOf": [{"type": "number"}, {"enum": list[Json](sorted(_NOT_FINITE))}]}
    return {
        "expr": {"anyOf": list[Json]([*leaves, *nodes, *atoms])},
        "float": object_schema({"float": number}, ["float"]),
    }
