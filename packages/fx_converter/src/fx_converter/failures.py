"""Errors that leave a graph. Wrong arguments become coded errors; errors of torch and of operators get a note
with code and place."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from functools import wraps
from types import TracebackType
from typing import Protocol, TypeVar, cast

from wrapper_ir.errors import WirError
from wrapper_ir.plugins.emitted import LineOrigin
from wrapper_ir_runtime.argument_failures import binding_failure, boxed_failure
from wrapper_ir_runtime.failures import add_place
from wrapper_ir_runtime.traces import file_of, traces_of
from wrapper_ir_torch.graph_modules import nested_nodes

Function = TypeVar("Function", bound=Callable[..., object])

_GRAPHS = "<eval_with_key>"
"""The prefix of the file names that torch gives the code of graph modules."""


class Lines(Protocol):
    """A text with the origin of each line."""

    @property
    def origins(self) -> Sequence[LineOrigin]:
        """One item per line."""


def explained_calls(function: Function) -> Function:
    """Wraps the `forward` of a graph module to explain its errors."""

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            explanation = explained(error, args)
            if explanation is error:
                raise
            raise explanation from error

    return cast(Function, call)  # the same signature


def explained(error: Exception, args: Sequence[object]) -> Exception:
    """Returns the error that `forward` of a graph module raises for `error`; the module is the first of
    `args`."""
    argument_error = binding_failure(error)
    if argument_error is not None:
        return argument_error
    module = args[0] if args else None
    frame = _innermost(error, _GRAPHS)
    if not isinstance(error, WirError) and frame is not None:
        add_place(error, _place(frame, _source(module, _line(frame))))
    return error


def explained_boxed(error: Exception, file: str, text: Lines) -> Exception:
    """Returns the error that the function of `file`, with this text, raises for `error`."""
    argument_error = boxed_failure(error, file)
    if argument_error is not None:
        return argument_error
    frame = _innermost(error, file)
    if not isinstance(error, WirError) and frame is not None:
        at = frame.tb_lineno - 1
        add_place(error, _place(frame, _of_line(text.origins[at]) if at < len(text.origins) else ""))
    return error


def _innermost(error: Exception, file: str) -> TracebackType | None:
    """Returns the innermost frame that runs code of files whose names begin with `file`."""
    return next((trace for trace in reversed(traces_of(error)) if file_of(trace).startswith(file)), None)


def _line(trace: TracebackType) -> str:
    return linecache.getline(
        trace.tb_frame.f_code.co_filename, trace.tb_lineno, trace.tb_frame.f_globals
    ).strip()


def _place(trace: TracebackType, source: str) -> str:
    place = f"\n  at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}\n    {_line(trace)}"
    return f"{place}\n  from {source}" if source else place


def _of_line(origin: LineOrigin) -> str:
    return f"op {origin.position} of @{origin.function}" if origin.function else origin.note


def _source(module: object, line: str) -> str:
    """Returns the source ops of the node that this line calls."""
    name = line.partition(" =")[0].partition(":")[0]
    nodes = nested_nodes(module)
    node = next((node for node in nodes if node.name == name), None)
    if node is None:
        return ""
    sources, ops = node.meta.get("from_nodes", ()), node.meta.get("source_ops", ())
    origin = node.meta.get("origin")
    if sources or ops:
        return f"{', '.join(sources)}: {', '.join(ops)}"
    return _of_line(origin) if isinstance(origin, LineOrigin) else ""
