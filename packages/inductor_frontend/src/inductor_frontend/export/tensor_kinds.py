"""Tensors that the IR has no type for: sparse, quantised, nested ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from inductor_frontend.errors import ConversionError

__all__ = ["lacks_type", "require_types"]

_STRIDED = (torch.strided, torch.jagged)
"""Layouts that are told apart by classes: a jagged tensor is a wrapper of plain ones."""


def lacks_type(tensor: Tensor) -> str:
    """What a tensor is that the IR has no type for; '' for all others."""
    if tensor.layout not in _STRIDED:
        return f"a tensor with layout {tensor.layout}, which has neither strides nor a storage"
    if tensor.is_quantized:
        return f"a quantised tensor ({tensor.dtype}), whose scale and zero point no type holds"
    if tensor.is_nested and tensor.layout is torch.strided:
        return "a nested tensor, whose parts have sizes of their own"
    return ""


def require_types(model: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raises ConversionError FE305 for the first argument, parameter or buffer that the IR has no type for. Any: a model's
    own arguments."""
    for name, tensor in (*_arguments(args, kwargs), *_state(model)):
        wrapper: bool = is_traceable_wrapper_subclass(tensor)  # whose parts are looked at
        found = lacks_type(tensor)
        if found and not wrapper:
            raise ConversionError(
                "FE305",
                f"{name} is {found}",
                hint="give the model plain tensors, such as the values and indices of a sparse tensor, or the integers and "
                "scales of a quantised one, and leave the rest to eager mode",
            )


def _arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    for what, tree in (("args", args), ("kwargs", dict(kwargs))):
        for path, leaf in pytree.tree_flatten_with_path(tree)[0]:
            if isinstance(leaf, Tensor):
                yield f"argument {what}{pytree.keystr(path)}", leaf


def _state(model: object) -> Iterator[tuple[str, Tensor]]:
    """Parameters, buffers and constants. Weights that a library has packed are constants of the artifact."""
    if isinstance(model, torch.nn.Module):
        held: dict[str, object] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    elif isinstance(model, ExportedProgram):
        held = {**model.state_dict, **model.constants}
    else:
        return
    for name, tensor in held.items():
        if isinstance(tensor, Tensor) and not tensor.is_mkldnn:
            yield name, tensor
