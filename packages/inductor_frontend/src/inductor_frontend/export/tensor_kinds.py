"""Tensors without a type in the IR: sparse, quantized and nested tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from inductor_frontend.errors import CaptureError, ConversionError

_STRIDED = (torch.strided, torch.jagged)
"""Layouts with storage: a jagged tensor is a wrapper subclass of strided tensors."""


def lacks_type(tensor: Tensor) -> str:
    """Describes a tensor that has no type in the IR; '' for all others."""
    if tensor.layout not in _STRIDED:
        return f"a tensor with layout {tensor.layout}, which has neither strides nor a storage"
    if tensor.is_quantized:
        return f"a quantized tensor ({tensor.dtype}), whose scale and zero point no type contains"
    if tensor.is_nested and tensor.layout is torch.strided:
        return "a nested tensor, whose parts have different sizes"
    return ""


def require_types(model: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
    """Raises ConversionError FE305 for the first argument, parameter or buffer without a type in the IR.

    Sparse arguments are excepted: `untyped` refuses those that are used.
    """
    dense = ((name, tensor) for name, tensor in _arguments(args, kwargs) if not _is_sparse(tensor))
    for name, tensor in (*dense, *_state(model)):
        wrapper: bool = is_traceable_wrapper_subclass(tensor)  # its parts are checked separately
        reason = lacks_type(tensor)
        if tensor.layout is torch.jagged:
            raise ConversionError(
                "FE305",
                f"{name} is a nested tensor with layout {tensor.layout}, "
                "whose sizes torch.export cannot trace",
                hint="pass its values() and offsets() to the model; or compile it with torch.compile(model, "
                "backend='wrapper_ir'), which accepts nested tensors",
            )
        if reason and not wrapper:
            raise untyped(name, reason)


def untyped(name: str, what: str) -> ConversionError:
    """Returns the error for a tensor without a type, with a hint."""
    return ConversionError(
        "FE305",
        f"{name} is {what}",
        hint="pass plain tensors to the model, such as the values and indices of a sparse tensor, "
        "or the integers and scales of a quantized one, and leave the rest to eager mode",
    )


@contextmanager
def blamed_on_sparse(args: tuple[object, ...], kwargs: Mapping[str, object]) -> Iterator[None]:
    """Replaces a failure to trace by the error for a sparse argument, if the model has one."""
    try:
        yield
    except CaptureError as error:
        for name, tensor in _arguments(args, kwargs) if error.code == "FE101" else ():
            if _is_sparse(tensor):
                raise untyped(name, lacks_type(tensor)) from error
        raise


def argument_names(spec: pytree.TreeSpec) -> list[str]:
    """Returns the names of the leaves of arguments in messages."""
    args, kwargs = pytree.tree_unflatten([None] * spec.num_leaves, spec)
    return [name for name, _ in _leaves(args, kwargs)]


def _is_sparse(tensor: Tensor) -> bool:
    return tensor.layout not in _STRIDED and not tensor.is_mkldnn


def _arguments(args: tuple[object, ...], kwargs: Mapping[str, object]) -> Iterator[tuple[str, Tensor]]:
    return ((name, leaf) for name, leaf in _leaves(args, kwargs) if isinstance(leaf, Tensor))


def _leaves(args: tuple[object, ...], kwargs: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for what, tree in (("args", args), ("kwargs", dict(kwargs))):
        for path, leaf in pytree.tree_flatten_with_path(tree)[0]:
            yield f"argument {what}{pytree.keystr(path)}", leaf


def _state(model: object) -> Iterator[tuple[str, Tensor]]:
    """Yields parameters, buffers and constants. Packed weights are excluded: they are constants of the
    artifact."""
    if isinstance(model, torch.nn.Module):
        tensors: dict[str, object] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    elif isinstance(model, ExportedProgram):
        tensors = {**model.state_dict, **model.constants}
    else:
        return
    for name, tensor in tensors.items():
        if isinstance(tensor, Tensor) and not tensor.is_mkldnn:
            yield name, tensor
