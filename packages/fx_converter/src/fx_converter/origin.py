"""What a converted graph module remembers of the artifact that it was made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx

from fx_converter.errors import SavedGraphError
from fx_converter.graph.metadata import FakeValues
from fx_converter.options import FxOptions
from wrapper_ir.artifact import Artifact
from wrapper_ir.values import Value

__all__ = ["KEY", "Origin", "origin_of"]

KEY = "wrapper_ir"
"""The entry of `GraphModule.meta`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Origin:
    """`constants` are the tensors that the graph's buffers hold (Any: packed ones are torch's own objects); `fakes` made
    the graph's fake values."""

    artifact: Artifact
    options: FxOptions
    constants: Mapping[Value, Any]
    fakes: FakeValues


def origin_of(module: fx.GraphModule) -> Origin:
    """What the module remembers; raises SavedGraphError FX201 for one that nothing of ours has made."""
    found = module.meta.get(KEY)
    if isinstance(found, Origin):
        return found
    raise SavedGraphError(
        "FX201",
        "this graph module does not say which artifact it comes from",
        hint="pass the converted module that it was made from as origin=",
    )
