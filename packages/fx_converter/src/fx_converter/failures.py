"""Errors that leave a graph: coded for wrong arguments; those of torch and of operators get a note with code and place."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from functools import wraps
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

from torch import fx

from wrapper_ir.errors import WirError
from wrapper_ir.plugins.emitted import LineOrigin
from wrapper_ir_runtime.argument_failures import binding_failure, boxed_failure
from wrapper_ir_runtime.failures import add_place
from wrapper_ir_runtime.traces import file_of, traces_of

Function = TypeVar("Function", bound=Callable[..., Any])

_GRAPHS = "<eval_with_key>"
"""How torch begins the names of the files of graph modules."""


class Lines(Protocol):
    """A text with what its lines are written for."""

    @property
    def origins(self) -> Sequence[LineOrigin]:
        """An item for each line."""


def explained_calls(function: Function) -> Function:
    """The `forward` of a graph module, whose errors are explained."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            found = explained(error, args)
            if found is error:
                raise
            raise found from error

    return cast(Function, call)  # the same signature


def explained(error: Exception, args: Sequence[Any]) -> Exception:  # Any: a module, and a call's arguments
    """`error`, as which it leaves the `forward` of a graph module, the first of `args`."""
    called_wrongly = binding_failure(error)
    if called_wrongly is not None:
        return called_wrongly
    module = args[0] if args else None
    frame = _innermost(error, _GRAPHS)
    if not isinstance(error, WirError) and frame is not None:
        add_place(error, _place(frame, _source(module, _line(frame))))
    return error


def explained_boxed(error: Exception, file: str, text: Lines) -> Exception:
    """`error`, as which it leaves the function of `file`, whose text this is."""
    called_wrongly = boxed_failure(error, file)
    if called_wrongly is not None:
        return called_wrongly
    frame = _innermost(error, file)
    if not isinstance(error, WirError) and frame is not None:
        at = frame.tb_lineno - 1
        add_place(error, _place(frame, _of_line(text.origins[at]) if at < len(text.origins) else ""))
    return error


def _innermost(error: Exception, file: str) -> TracebackType | None:
    """Of the frames that run text of a file, or of files of such names, the innermost."""
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
    """The source ops of the node whose line this is."""
    name = line.partition(" =")[0].partition(":")[0]
    graphs = (
        [m.graph for m in module.modules() if isinstance(m, fx.GraphModule)]
        if isinstance(module, fx.GraphModule)
        else []
    )
    node = next((node for graph in graphs for node in graph.nodes if node.name == name), None)
    if node is None:
        return ""
    nodes, ops = node.meta.get("from_nodes", ()), node.meta.get("source_ops", ())
    origin = node.meta.get("origin")
    if nodes or ops:
        return f"{', '.join(nodes)}: {', '.join(ops)}"
    return _of_line(origin) if isinstance(origin, LineOrigin) else ""
