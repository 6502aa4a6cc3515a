"""Converts errors of calls with wrong arguments into coded ones that name the argument.

Python raises these when it binds the arguments of a function or unpacks a list. Nothing is checked
beforehand.
"""

from __future__ import annotations

import json
import linecache
import re
from collections.abc import Sequence
from types import TracebackType

from wrapper_ir import ir
from wrapper_ir.errors import ArgumentError
from wrapper_ir_runtime.traces import file_of, traces_of
from wrapper_ir_runtime.trees import Arguments

BOUND = (AttributeError, TypeError, ValueError)
"""Types of the errors of binding and unpacking arguments."""
_PLACE = re.compile(r"arguments\[([01])\]\[(.*?)\](?=[\[:])")
_UNPACKED = re.compile(r"= (\w+)$")
_CAPTURED = "call it with the structure of arguments that it was captured with"


def binding_failure(error: Exception) -> ArgumentError | None:
    """Returns the coded form of an error from binding or unpacking the arguments of a call; None for other
    errors."""
    trace = error.__traceback__
    if trace is None or not isinstance(error, BOUND):
        return None
    if trace.tb_next is None:  # the function did not begin
        return ArgumentError("WIR926", f"arguments: {error}") if type(error) is TypeError else None
    variable = _taken(trace.tb_next)
    if variable is None or trace.tb_next.tb_next is not None:
        return None
    return ArgumentError("WIR926", f"argument {variable}: {error}", hint=_CAPTURED)


def boxed_failure(error: Exception, file: str, names: Sequence[str] = ()) -> ArgumentError | None:
    """Returns the coded form of an error from unpacking flat arguments in a function of `file`; None for
    other errors.

    It covers a wrong number of arguments, and an argument that is not a list. `names` are the names of the
    arguments. The default is the names of the function's variables.
    """
    traces = traces_of(error) if isinstance(error, BOUND) else []
    if not traces or file_of(traces[-1]) != file:
        return None
    trace = traces[-1]
    code, args = trace.tb_frame.f_code, trace.tb_frame.f_code.co_varnames[:1]
    line = _line(trace)
    if not args or (not line.endswith(f"= {args[0]}") and line != f"{args[0]}.clear()"):
        return None
    arguments = trace.tb_frame.f_locals.get(args[0])
    if not isinstance(arguments, list):
        return ArgumentError("WIR926", f"arguments: expected a list, got {type(arguments).__name__}")
    expected = re.search(r"\(expected (\d+)", str(error))
    if expected is None:
        return None
    count = int(expected[1])
    expected_names = list(names or code.co_varnames[1 : 1 + count])
    missing = expected_names[len(arguments) :]
    text = f"expected {count}, got {len(arguments)}" + (f"; missing: {', '.join(missing)}" if missing else "")
    return ArgumentError("WIR926", f"arguments: {text}")


def named_failure(error: ArgumentError, signature: ir.Signature, arguments: Arguments) -> ArgumentError:
    """Returns an error about the structure of arguments (see `trees.flatten`) with the names of the
    arguments."""
    positional, keywords = signature.inputs.children
    names = _positional_names(signature)
    message = error.message
    if message.startswith("arguments[0]: "):
        count = len(arguments[0])
        missing = names[count:]
        more = f"; missing: {', '.join(missing)}" if missing else ""
        message = f"arguments: expected {len(positional.children)}, got {count}{more}"
    elif message.startswith("arguments[1]: "):
        keys_at_capture = [json.loads(key) for key in keywords.keys]
        unknown = [str(key) for key in arguments[1] if key not in keys_at_capture]
        missing = [str(key) for key in keys_at_capture if key not in arguments[1]]
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
    """Returns the names of positional arguments: of parameters, else of single leaves, else numbers."""
    children = signature.inputs.children[0].children
    names = [p.name for p in signature.parameters if p.kind is not ir.ParameterKind.KEYWORD]
    leaf = sum(spec.num_leaves for spec in children[: len(names)])
    for number, spec in enumerate(children[len(names) :], len(names)):
        names.append(signature.name(leaf) if spec.kind is ir.TreeKind.LEAF else f"#{number}")
        leaf += spec.num_leaves
    return names[: len(children)]


def _taken(trace: TracebackType) -> str | None:
    """Returns the variable that a frame's line unpacks."""
    match = _UNPACKED.search(_line(trace))
    return None if match is None else match[1]


def _line(trace: TracebackType) -> str:
    """Returns the last line of the statement that failed. A long statement begins with a parenthesis."""
    code, scope = trace.tb_frame.f_code, trace.tb_frame.f_globals
    number = trace.tb_lineno
    line = linecache.getline(code.co_filename, number, scope).strip()
    if line.startswith("(") and not _UNPACKED.search(line):
        later = (linecache.getline(code.co_filename, n, scope).strip() for n in range(number, number + 400))
        line = next((text for text in later if text.startswith(")")), line)
    return line
