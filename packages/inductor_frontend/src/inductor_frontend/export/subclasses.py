"""Wrapper subclasses of tensors: their specs in the signature, and their parts in torch's order."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from inductor_frontend.constants import ConstantRole
from inductor_frontend.convert import to_device, to_dtype, to_layout, to_memory_format
from inductor_frontend.errors import CaptureError, ConversionError
from inductor_frontend.export.names import class_name
from wrapper_ir import ir

# Any in this file: tensors of the user's classes, fake tensors, and their contexts.


def is_wrapper(value: object) -> bool:
    """Returns whether a tensor is a wrapper subclass that torch can flatten."""
    return isinstance(value, torch.Tensor) and is_traceable_wrapper_subclass(value)


def input_spec(value: Any) -> ir.SubclassSpec:
    """Returns the spec of an input; symbolic sizes are None, and read from the argument of each call.

    Raises CaptureError FE102.
    """
    attributes, context = value.__tensor_flatten__()
    return _spec(type(value), attributes, context, value.size(), value.stride())


def output_spec(layout: Any) -> ir.SubclassSpec:
    """Returns the spec of an output, from torch's SubclassCreationMeta."""
    cls = layout.original_subclass_type or type(layout.original_subclass)
    return _spec(cls, tuple(layout.attrs), layout.meta, layout.outer_size, layout.outer_stride)


def _spec(
    cls: type, attributes: Iterable[str], context: object, sizes: Iterable[object], strides: Iterable[object]
) -> ir.SubclassSpec:
    name = class_name(cls)
    return ir.SubclassSpec(
        type_name=name,
        attributes=tuple(attributes),
        context=context_text(context, name),
        sizes=_known(sizes),
        strides=_known(strides),
    )


def _known(numbers: Iterable[object]) -> tuple[int | None, ...]:
    return tuple(n if isinstance(n, int) else None for n in numbers)


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields (name after a dot, value) of the plain tensors in a wrapper, then of its symbolic sizes and
    strides.

    This is the order in which torch flattens them to inputs.
    """
    attributes, _ = value.__tensor_flatten__()
    for attribute in attributes:
        inner = getattr(value, attribute)  # named by `__tensor_flatten__`
        if is_wrapper(inner):
            yield from ((f".{attribute}{name}", part) for name, part in parts_of(inner))
        else:
            yield f".{attribute}", inner
    for what, numbers in (("size", value.size()), ("stride", value.stride())):
        yield from ((f".{what}{d}", n) for d, n in enumerate(numbers) if not isinstance(n, int))


def plain_tensors(value: object) -> list[torch.Tensor]:
    """Returns the tensors with memory: the tensor itself, or the tensors that it wraps; none for a number."""
    if is_wrapper(value):
        return [part for _, part in parts_of(value) if isinstance(part, torch.Tensor)]
    return [value] if isinstance(value, torch.Tensor) else []


def constant_parts(role: ConstantRole) -> list[ConstantRole]:
    """Returns the constants of the parts of a wrapper; a plain tensor is a single constant."""
    if not is_wrapper(role.data):
        return [role]
    return [
        ConstantRole(
            role.name + name, part, role.mutable, kind=role.kind, names=tuple(n + name for n in role.names)
        )
        for name, part in parts_of(role.data)
    ]


# --- contexts, in the form of wrapper_ir_runtime.subclasses


def context_text(context: object, owner: str) -> str:
    """Encodes a subclass's context as JSON; raises CaptureError FE102 for values without an encoding."""
    try:
        return json.dumps(_encode(context), sort_keys=True, ensure_ascii=False, allow_nan=False)
    except ConversionError as error:
        raise CaptureError(
            "FE102",
            f"tensor subclass {owner} has a context that cannot be serialized: {error.message}",
            hint="let __tensor_flatten__ return plain values: "
            "numbers, strings, dtypes, devices, lists, tuples, dicts",
        ) from error


def _encode(value: object) -> object:
    if type(value) is tuple:
        return {"tuple": [_encode(item) for item in value]}
    if type(value) is list:
        return [_encode(item) for item in value]
    if type(value) is dict:
        return {"dict": [[_encode(k), _encode(v)] for k, v in value.items()]}
    if type(value) is float and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or type(value) in (bool, int, float, str):
        return value
    return _native(value)


def _native(value: object) -> object:
    match value:
        case torch.dtype():
            return {"dtype": to_dtype(value).value}
        case torch.device():
            return {"device": str(to_device(value))}
        case torch.layout():
            return {"layout": to_layout(value).value}
        case torch.memory_format():
            return {"memory_format": to_memory_format(value).value}
        case _:
            raise ConversionError("FE302", f"{value!r} of type {type(value).__name__}")
