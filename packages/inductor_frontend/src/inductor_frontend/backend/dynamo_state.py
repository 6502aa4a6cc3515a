"""What Dynamo holds of compiled functions: guards, bytecode, graph breaks."""

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
    """One compiled version of a function: torch's number of it, the function's name and place, its guards and the bytecode that
    runs in its place."""

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
    """Why Dynamo ended a graph, and the user's stack there as `file:line` texts, the innermost last."""

    reason: str
    stack: tuple[str, ...]


def compiled_codes() -> Iterator[CompiledCode]:
    """All compiled versions that Dynamo would still run, of all functions."""
    for reference in tuple(convert_frame.input_codes.seen):
        code: CodeType | None = reference()
        if code is None:
            continue
        entry: Any  # of torch's C++, untyped
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
    """The graph breaks of this process since Dynamo was reset, without the first ones."""
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
