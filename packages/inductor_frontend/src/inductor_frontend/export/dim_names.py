"""The user's names of dynamic sizes, by the symbols that torch.export creates for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch
from torch.export import Dim, ExportedProgram
from torch.export.dynamic_shapes import _combine_args, _tree_map_with_path

# Any in this file: models, their arguments, and the nested form of `dynamic_shapes`.


def dim_names(
    module: torch.nn.Module,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    dynamic_shapes: object,
    program: ExportedProgram,
) -> dict[str, str]:
    """Maps each symbol that is a size of an input to the name of its `Dim`.

    Sizes without a named `Dim` (`Dim.AUTO`, derived dimensions) are omitted.
    """
    if not isinstance(dynamic_shapes, Mapping | tuple | list) or not dynamic_shapes:
        return {}
    specs: list[object] = []
    arguments = _combine_args(module, args, dict(kwargs))
    if not isinstance(dynamic_shapes, Mapping):
        dynamic_shapes = dict(zip(arguments, dynamic_shapes))
    _tree_map_with_path(
        lambda path, leaf, spec: specs.append(spec), arguments, dynamic_shapes, tree_name="inputs"
    )
    inputs = [n for n in program.graph.nodes if n.name in program.graph_signature.user_inputs]
    if len(inputs) != len(specs):  # some of them are constants
        return {}
    names: dict[str, str] = {}
    for node, spec in zip(inputs, specs, strict=True):
        for position, dim in _dims(spec):
            size = node.meta["val"].shape[position]
            symbol = size.node.expr if isinstance(size, torch.SymInt) else None
            if isinstance(symbol, sympy.Symbol):
                names.setdefault(symbol.name, dim.__name__)
    return names


def _dims(spec: object) -> list[tuple[int, Any]]:
    """Returns the (position, Dim) pairs of one tensor."""
    if isinstance(spec, Mapping):
        pairs = list(spec.items())
    elif isinstance(spec, tuple | list):
        pairs = list(enumerate(spec))
    else:
        return []
    return [(position, dim) for position, dim in pairs if isinstance(dim, Dim)]
