"""Tensors that the IR has no type for: sparse, quantised, nested ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from inductor_frontend.errors import CaptureError, ConversionError

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
    """Raises ConversionError FE305 for the first argument, parameter or buffer that the IR has no type for, but sparse
    arguments: `untyped` refuses those that are used. Any: a model's own arguments."""
    given = ((name, tensor) for name, tensor in _arguments(args, kwargs) if not _is_sparse(tensor))
    for name, tensor in (*given, *_state(model)):
        wrapper: bool = is_traceable_wrapper_subclass(tensor)  # whose parts are looked at
        found = lacks_type(tensor)
        if tensor.layout is torch.jagged:
            raise ConversionError(
                "FE305",
                f"{name} is a nested tensor with layout {tensor.layout}, whose sizes torch.export cannot trace",
                hint="give the model its values() and offsets(); or compile it with torch.compile(model, "
                "backend='wrapper_ir'), which takes nested tensors",
            )
        if found and not wrapper:
            raise untyped(name, found)


def untyped(name: str, what: str) -> ConversionError:
    """The refusal of a tensor, and the way out."""
    return ConversionError(
        "FE305",
        f"{name} is {what}",
        hint="give the model plain tensors, such as the values and indices of a sparse tensor, or the integers and "
        "scales of a quantised one, and leave the rest to eager mode",
    )


@contextmanager
def blamed_on_sparse(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[None]:
    """A model that cannot be traced with a sparse argument is refused because of that. Any: as above."""
    try:
        yield
    except CaptureError as error:
        for name, tensor in _arguments(args, kwargs) if error.code == "FE101" else ():
            if _is_sparse(tensor):
                raise untyped(name, lacks_type(tensor)) from error
        raise


def argument_names(spec: pytree.TreeSpec) -> list[str]:
    """What messages call the leaves of arguments of this structure."""
    args, kwargs = pytree.tree_unflatten([None] * spec.num_leaves, spec)
    return [name for name, _ in _leaves(args, kwargs)]


def _is_sparse(tensor: Tensor) -> bool:
    return tensor.layout not in _STRIDED and not tensor.is_mkldnn


def _arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    return ((name, leaf) for name, leaf in _leaves(args, kwargs) if isinstance(leaf, Tensor))


def _leaves(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for what, tree in (("args", args), ("kwargs", dict(kwargs))):
        for path, leaf in pytree.tree_flatten_with_path(tree)[0]:
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
