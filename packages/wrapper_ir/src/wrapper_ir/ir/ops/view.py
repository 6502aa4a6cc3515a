"""The one op that makes a tensor from a storage or from another tensor."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from wrapper_ir.expr import Expr, Int
from wrapper_ir.ir.ops.base import Def, OpBase, Use
from wrapper_ir.ir.ops.effects import EffectContext, Effects
from wrapper_ir.ir.types import StorageType, TensorType

_ZERO = Int(0)


class ViewMode(enum.Enum):
    """`ALIAS` leaves the source usable; `REUSE` ends it: bytes stay, the name may not be used again."""

    ALIAS = "view"
    REUSE = "reuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class View(OpBase):
    """A tensor over `source`'s storage; the result's type gives dtype, sizes, strides.

    `offset` is in bytes, from the start of the storage when `source` is a storage, from the source tensor's first
    element when it is a tensor; always a multiple of the result's item size. `REUSE` moves the storage: the source
    name, and every other tensor of the same storage, is dead after it (content is kept, as in-place kernels need).
    Text: `%v = view %buf0 + 128 : f32[4, 8]{1, 4}`, `%buf1 = reuse %buf0 : f32[32]`.
    """

    syntax: ClassVar[str] = "{result} = {mode} {source}< + {offset}> : {result:type}"

    source: Use[StorageType | TensorType]
    result: Def[TensorType]
    offset: Expr = _ZERO
    mode: ViewMode = ViewMode.ALIAS

    def effects(self, context: EffectContext) -> Effects:
        """Reuse moves the storage."""
        moved = (self.source,) if self.mode is ViewMode.REUSE else ()
        return Effects((), (), (), ((self.result, self.source),), (), moved)
