"""The op that creates a tensor over an existing storage."""

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
    """Effect on the source: `ALIAS` keeps it usable; `REUSE` ends its name but keeps its bytes."""

    ALIAS = "view"
    REUSE = "reuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class View(OpBase):
    """Creates a tensor over `source`'s storage; the result's type has its dtype, sizes and strides.

    `offset` is in bytes, from the start of a storage or from the first element of a tensor. It is a multiple
    of the result's item size. `REUSE` moves the storage: the source and every other tensor over the same
    storage are dead after it. The contents stay, as in-place kernels require.

    Text: `%v = view %buf0 + 128 : f32[4, 8]{1, 4}`, `%buf1 = reuse %buf0 : f32[32]`.
    """

    syntax: ClassVar[str] = "{result} = {mode} {source}< + {offset}> : {result:type}"

    source: Use[StorageType | TensorType]
    result: Def[TensorType]
    offset: Expr = _ZERO
    mode: ViewMode = ViewMode.ALIAS

    def effects(self, context: EffectContext) -> Effects:
        """Aliases the source; `REUSE` also moves its storage."""
        moved = (self.source,) if self.mode is ViewMode.REUSE else ()
        return Effects((), (), (), ((self.result, self.source),), (), moved)
