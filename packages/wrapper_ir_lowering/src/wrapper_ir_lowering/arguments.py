"""Arguments of operators in the order of their schemas, with the schemas' defaults as values."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache

from wrapper_ir import ir
from wrapper_ir.errors import LoweringError
from wrapper_ir.expr import Expr, as_expr
from wrapper_ir_lowering.state import FunctionState
from wrapper_ir_lowering.steps import Argument, Given

_WORDS: Mapping[str, ir.Arg] = {word.value: word for word in (*ir.MemoryFormat, *ir.Layout)}
_LIST = re.compile(r"\[(\d+)\]\??$")


def schema_arguments(
    operator: ir.ExternInfo, op: ir.OperatorCall, state: FunctionState
) -> tuple[Argument, ...]:
    """All arguments of a call. Raises LoweringError WIR240 where the call does not fit the schema, WIR241 for a default
    that cannot be read."""
    declared = operator.schema.args
    named = dict(op.kwargs)
    if len(op.args) > len(declared) or not named.keys() <= operator.named.keys():
        raise state.invalid(f"the call does not fit {operator.extern.schema}")
    found = []
    for number, schema in enumerate(declared):
        usual = default_value(schema) if schema.default is not None else None
        if number < len(op.args):
            value, given = op.args[number], Given.POSITION
        elif schema.name in named:
            value, given = named[schema.name], Given.KEYWORD
        elif schema.default is not None:
            value, given = usual, Given.DEFAULT
        else:
            raise state.invalid(f"the call leaves out {schema.name} of {operator.extern.schema}")
        is_default = schema.default is not None and type(value) is type(usual) and value == usual
        found.append(Argument(schema=schema, value=value, given=given, is_default=is_default))
    return tuple(found)


@lru_cache(maxsize=4096)
def default_value(schema: ir.SchemaArg) -> ir.Arg:
    """The value of an argument's default: numbers, bools, texts, lists of them, None. One number for `int[2]` is the
    whole list. Enumerations of torch are their integers, as its schemas print them, or words as people write them
    (`contiguous_format`). Raises LoweringError WIR241."""
    text = (schema.default or "").strip()
    if text in _WORDS:
        return _WORDS[text]
    try:
        found = _argument(ast.literal_eval(text))
    except (ValueError, SyntaxError) as error:
        raise LoweringError(
            "WIR241",
            f"cannot read the default {text!r} of {schema.type} {schema.name}",
            hint="give the argument in the call",
        ) from error
    sized = _LIST.search(schema.type)
    return (found,) * int(sized[1]) if sized and isinstance(found, Expr) else found


def _argument(value: object) -> ir.Arg:
    match value:
        case None | str():
            return value
        case bool() | int() | float():
            return as_expr(value)
        case list() | tuple():
            return tuple(_argument(item) for item in value)
        case _:
            raise ValueError(f"no argument is {value!r}")
