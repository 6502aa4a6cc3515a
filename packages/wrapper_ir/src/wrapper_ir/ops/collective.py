"""Collectives: started by one op, in flight until waited for."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.ops.base import Args, Def, Kwargs, OpBase, Use

__all__ = ["CollectiveStart", "Wait"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveStart(OpBase):
    """Starts a functional collective on `group`; nothing may touch `result` before its `Wait`, and no op may write
    or free the arguments before it.

    Text: `%h = collective _c10d_functional::all_reduce(%x, "sum", "0") group("0") : f32[8]`.
    """

    target: str
    args: Args
    result: Def
    group: str
    kwargs: Kwargs = ()
    stream: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(OpBase):
    """Waits for a collective; `result` is its finished tensor, over the same storage.

    Text: `%y = wait %h : f32[8]`.
    """

    source: Use
    result: Def
