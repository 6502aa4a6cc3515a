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
    """Returns all arguments of a call.

    Raises LoweringError WIR240 if the call does not fit the schema, WIR241 for a default that cannot be
    parsed.
    """
    declared = operator.schema.args
    keywords = dict(op.kwargs)
    if len(op.args) > len(declared) or not keywords.keys() <= operator.named.keys():
        raise state.invalid(f"the call does not fit {operator.extern.schema}")
    arguments = []
    for number, schema in enumerate(declared):
        usual = default_value(schema) if schema.default is not None else None
        if number < len(op.args):
            value, form = op.args[number], Given.POSITION
        elif schema.name in keywords:
            value, form = keywords[schema.name], Given.KEYWORD
        elif schema.default is not None:
            value, form = usual, Given.DEFAULT
        else:
            raise state.invalid(f"the call leaves out {schema.name} of {operator.extern.schema}")
        is_default = schema.default is not None and type(value) is type(usual) and value == usual
        arguments.append(Argument(schema=schema, value=value, given=form, is_default=is_default))
    return tuple(arguments)


@lru_cache(maxsize=4096)
def default_value(schema: ir.SchemaArg) -> ir.Arg:
    """Returns the value of an argument's default: a number, bool, text, list of them, or None.

    A single number for `int[2]` represents the whole list. Enumerations of torch are their integers, as its
    schemas print them, or words (`contiguous_format`). Raises LoweringError WIR241.
    """
    text = (schema.default or "").strip()
    if text in _WORDS:
        return _WORDS[text]
    try:
        value_of_default = _argument(ast.literal_eval(text))
    except (ValueError, SyntaxError) as error:
        raise LoweringError(
            "WIR241",
            f"cannot read the default {text!r} of {schema.type} {schema.name}",
            hint="give the argument in the call",
        ) from error
    sized = _LIST.search(schema.type)
    return (
        (value_of_default,) * int(sized[1])
        if sized and isinstance(value_of_default, Expr)
        else value_of_default
    )


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
