"""Dynamo's state of compiled functions: guards, bytecode, graph breaks."""

from __future__ import annotations

import dis
import io
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._dynamo import convert_frame
from torch._dynamo.utils import graph_break_reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCode:
    """One compiled version of a function: torch's compile id, the function's name and source location, its
    guards, and the bytecode that Dynamo runs instead."""

    compile_id: str
    name: str
    file: str
    line: int
    guards: str
    bytecode: str
    backend_ids: frozenset[str]
    """The names of the compiled graphs that it calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBreak:
    """The reason why Dynamo ended a graph, and the user's stack as `file:line` texts, innermost last."""

    reason: str
    stack: tuple[str, ...]


def compiled_codes() -> Iterator[CompiledCode]:
    """Yields the compiled versions of all functions that Dynamo can still run."""
    for reference in tuple(convert_frame.input_codes.seen):
        code: CodeType | None = reference()
        if code is None:
            continue
        entry: Any  # from torch's C++, untyped
        for entry in _debug_get_cache_entry_list(code):
            yield CompiledCode(
                compile_id=str(entry.compile_id),
                name=code.co_qualname,
                file=code.co_filename,
                line=code.co_firstlineno,
                guards=str(entry.guard_manager).strip() + "\n",
                bytecode=_disassembled(entry.code),
                backend_ids=frozenset(_names(entry.code)),
            )


def graph_breaks(first: int = 0) -> tuple[GraphBreak, ...]:
    """Returns the graph breaks of this process since the last reset of Dynamo, starting at index `first`."""
    return tuple(
        GraphBreak(
            reason=str(one.reason).strip(),
            stack=tuple(f"{frame.filename}:{frame.lineno}" for frame in one.user_stack),
        )
        for one in graph_break_reasons[first:]
    )


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _disassembled(code: CodeType) -> str:
    text = io.StringIO()
    dis.dis(code, file=text)
    return text.getvalue()
