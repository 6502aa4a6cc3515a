"""Distinguishes failures of an emitted module's arithmetic from those of the functions that it calls.

Python's arithmetic, and torch's conversions of ints, raise plain errors. Nothing is checked beforehand: the
failing line shows which numbers it computes, and its frame still contains the operands.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from itertools import islice
from types import FrameType, TracebackType

from wrapper_ir.errors import ExpressionError
from wrapper_ir.expr.arithmetic import fits_int64, shown
from wrapper_ir.support.python_syntax import parse_module
from wrapper_ir_runtime.traces import file_of, traces_of

_FUNCTIONS = ("abs", "bool", "float", "int", "max", "min", "round")
"""Built-in functions in printed expressions."""
_NODES = (
    ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.Constant, ast.IfExp, ast.Name, ast.UnaryOp,
    ast.operator, ast.boolop, ast.cmpop, ast.unaryop, ast.expr_context,
)  # fmt: skip
"""Syntax nodes of printed expressions, besides functions of `math`."""


def arithmetic_failure(error: Exception, file: str) -> ExpressionError | None:
    """Returns the coded form of an error from the arithmetic of a line in `file`; None for other errors.

    ExpressionError WIR402 means that a function or an operator has no value, and WIR408 that an int which the
    line passes on is not an int64.
    """
    traces = traces_of(error)
    own = next((trace for trace in reversed(traces) if file_of(trace) == file), None)
    if own is None:
        return None
    if (
        own is traces[-1]
        and isinstance(error, OverflowError | ValueError)
        and _is_arithmetic(_failing_text(own, file))
    ):
        return ExpressionError("WIR402", str(error))
    wide = next(_wide_ints(own, file), None)
    return None if wide is None else ExpressionError("WIR408", f"{shown(wide)} is not an int64")


def _failing_text(trace: TracebackType, file: str) -> str:
    """Returns the source of the failing expression, or "" if Python keeps no columns."""
    positions = next(islice(trace.tb_frame.f_code.co_positions(), trace.tb_lasti // 2, None))
    first, last, begin, end = positions
    if first is None or first != last or begin is None or end is None:
        return ""
    return linecache.getline(file, first).encode()[begin:end].decode()


def _parsed(text: str) -> ast.AST:
    try:
        return parse_module(text.strip())
    except SyntaxError:  # the first line of a block
        return ast.Module([], [])


def _is_arithmetic(text: str) -> bool:
    """Returns whether source computes a number as printed expressions do: an operator, or a function of
    numbers."""
    match _parsed(text):
        case ast.Module([ast.Expr(ast.BinOp())]):
            return True
        case ast.Module([ast.Expr(ast.Call() as call)]):
            return _is_function(call)
        case _:
            return False


def _is_function(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    return name in _FUNCTIONS or name.startswith("math.")


def _wide_ints(trace: TracebackType, file: str) -> Iterator[int]:
    """Yields the numbers that a line computes and that are not int64."""
    waiting = [_parsed(linecache.getline(file, trace.tb_lineno))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.BinOp | ast.Call | ast.IfExp | ast.Name) and _is_number(node, trace.tb_frame):
            value = _value(node, trace.tb_frame)
            if isinstance(value, int) and not fits_int64(value):
                yield value
        else:
            waiting += ast.iter_child_nodes(node)


def _is_number(node: ast.AST, frame: FrameType) -> bool:
    """Returns whether an expression has only numbers as operands, so that it can be evaluated again."""
    match node:
        case ast.Call():
            return _is_function(node) and all(_is_number(arg, frame) for arg in node.args)
        case ast.Name(name):
            return isinstance(frame.f_locals.get(name), int | float)
        case _:
            return isinstance(node, _NODES) and all(_is_number(n, frame) for n in ast.iter_child_nodes(node))


def _value(node: ast.expr, frame: FrameType) -> object:
    try:
        code = compile(ast.Expression(node), "<failed>", "eval")
        value: object = eval(code, frame.f_globals, frame.f_locals)  # noqa: S307  # emitted text
        return value
    except (ArithmeticError, ValueError):
        return None
