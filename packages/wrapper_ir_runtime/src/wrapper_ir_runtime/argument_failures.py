"""Errors of calls with other arguments than a program takes, as coded ones that name the argument.

Python raises them where it binds the arguments of a function or takes a list apart. Nothing is looked at before that.
"""

from __future__ import annotations

import json
import linecache
import re
from collections.abc import Callable, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, cast

from wrapper_ir import ir
from wrapper_ir.errors import ArgumentError
from wrapper_ir_runtime.traces import file_of, traces_of

Function = TypeVar("Function", bound=Callable[..., Any])
_BOUND = (AttributeError, TypeError, ValueError)
_PLACE = re.compile(r"arguments\[([01])\]\[(.*?)\](?=[\[:])")
_UNPACKED = re.compile(r"= (\w+)$")
_CAPTURED = "call it with the structure of arguments that it was captured with"


def coded_arguments(function: Function) -> Function:
    """The function, which raises ArgumentError WIR926 for missing, unknown and repeated arguments, and for those which it
    cannot take apart."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except _BOUND as error:
            found = binding_failure(error)
            if found is None:
                raise
            raise found from error

    return cast(Function, call)  # the same signature


def binding_failure(error: Exception) -> ArgumentError | None:
    """The coded form of an error that a caught call of a function raised where it took its arguments; None for any other."""
    trace = error.__traceback__
    if trace is None or not isinstance(error, _BOUND):
        return None
    if trace.tb_next is None:  # the function did not begin
        return ArgumentError("WIR926", f"arguments: {error}") if type(error) is TypeError else None
    taken = _taken(trace.tb_next)
    if taken is None or trace.tb_next.tb_next is not None:
        return None
    return ArgumentError("WIR926", f"argument {taken}: {error}", hint=_CAPTURED)


def boxed_failure(error: Exception, file: str, names: Sequence[str] = ()) -> ArgumentError | None:
    """The coded form of an error that came of another number of flat arguments, or of no list of
    them, in a function of `file`; None for any other. `names` are those of the arguments; without them, the names of the function's variables."""
    traces = traces_of(error) if isinstance(error, _BOUND) else []
    if not traces or file_of(traces[-1]) != file:
        return None
    trace = traces[-1]
    code, args = trace.tb_frame.f_code, trace.tb_frame.f_code.co_varnames[:1]
    line = _line(trace)
    if not args or (not line.endswith(f"= {args[0]}") and line != f"{args[0]}.clear()"):
        return None
    given = trace.tb_frame.f_locals.get(args[0])
    if not isinstance(given, list):
        return ArgumentError("WIR926", f"arguments: expected a list, got {type(given).__name__}")
    expected = re.search(r"\(expected (\d+)", str(error))
    if expected is None:
        return None
    count = int(expected[1])
    wanted = list(names or code.co_varnames[1 : 1 + count])
    missing = wanted[len(given) :]
    text = f"expected {count}, got {len(given)}" + (f"; missing: {', '.join(missing)}" if missing else "")
    return ArgumentError("WIR926", f"arguments: {text}")


def named_failure(error: ArgumentError, signature: ir.Signature, given: Sequence[Any]) -> ArgumentError:
    """An error of the structure of a call's arguments (see `trees.flatten`), with the names of the arguments."""
    positional, keywords = signature.inputs.children
    names = _positional_names(signature)
    message = error.message
    if message.startswith("arguments[0]: "):
        count = len(given[0])
        missing = names[count:]
        more = f"; missing: {', '.join(missing)}" if missing else ""
        message = f"arguments: expected {len(positional.children)}, got {count}{more}"
    elif message.startswith("arguments[1]: "):
        wanted = [json.loads(key) for key in keywords.keys]
        unknown = [str(key) for key in given[1] if key not in wanted]
        missing = [str(key) for key in wanted if key not in given[1]]
        message = "arguments: " + "; ".join(
            f"{what}: {', '.join(keys)}"
            for what, keys in (("unexpected", unknown), ("missing", missing))
            if keys
        )
    else:
        place = _PLACE.match(message)
        if place is not None:
            at = place[2]
            name = names[int(at)] if place[1] == "0" else json.loads(at)
            message = f"argument {name}{message[place.end() :]}"
    return ArgumentError(error.code, message, hint=error.hint)


def _positional_names(signature: ir.Signature) -> list[str]:
    """Names of the arguments by position: of the model's parameters, else of single leaves, else numbers."""
    children = signature.inputs.children[0].children
    names = [p.name for p in signature.parameters if p.kind is not ir.ParameterKind.KEYWORD]
    leaf = sum(spec.num_leaves for spec in children[: len(names)])
    for number, spec in enumerate(children[len(names) :], len(names)):
        names.append(signature.name(leaf) if spec.kind is ir.TreeKind.LEAF else f"#{number}")
        leaf += spec.num_leaves
    return names[: len(children)]


def _taken(trace: TracebackType) -> str | None:
    """The variable that the line of a frame takes apart."""
    found = _UNPACKED.search(_line(trace))
    return None if found is None else found[1]


def _line(trace: TracebackType) -> str:
    """The last line of the statement that failed: a long one begins with a bracket."""
    code, scope = trace.tb_frame.f_code, trace.tb_frame.f_globals
    number = trace.tb_lineno
    line = linecache.getline(code.co_filename, number, scope).strip()
    if line.startswith("(") and not _UNPACKED.search(line):
        later = (linecache.getline(code.co_filename, n, scope).strip() for n in range(number, number + 400))
        line = next((text for text in later if text.startswith(")")), line)
    return line
