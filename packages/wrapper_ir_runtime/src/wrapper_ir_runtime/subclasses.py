"""Wrapper tensors (traceable tensor subclasses): unwraps and builds them according to a `SubclassSpec`.

A class supports this with two methods that torch defines: `__tensor_flatten__` returns the names of the
wrapped tensors and a context, `__tensor_unflatten__` builds a wrapper from both. The context is JSON. Values
without a JSON form are marked as follows; no other marks, and no pickle, are accepted:

{"tuple": [...]} a tuple {"dict": [[key, value], ...]} a dict {"float": "nan"} a float that JSON has no number
for: nan, inf, -inf {"dtype": "f32"}, {"device": "cuda:0"}, {"layout": "strided"}, {"memory_format":
"channels_last"}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from wrapper_ir import ir
from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime.trees import class_of

Native = Callable[[ir.Arg], object]
"""Returns the tensor library's own dtype, device, layout or memory format."""


def _device(text: str) -> ir.Device:
    kind, _, index = text.partition(":")
    return ir.Device(kind, int(index) if index else None)


_NATIVE: dict[str, Callable[[str], ir.Arg]] = {
    "dtype": ir.DType,
    "device": _device,
    "layout": ir.Layout,
    "memory_format": ir.MemoryFormat,
}


def read_context(text: str, native: Native) -> object:
    """Parses a context; raises ExecutionError WIR926 for other JSON."""
    try:
        return _value(json.loads(text), native)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ExecutionError(
            "WIR926", f"{text[:80]!r} is not a context of a tensor subclass: {error}"
        ) from error


def _value(x: object, native: Native) -> object:
    if isinstance(x, list):
        return [_value(item, native) for item in x]
    if not isinstance(x, dict):
        return x
    ((mark, content),) = x.items()
    match mark:
        case "tuple":
            return tuple(_value(item, native) for item in content)
        case "dict":
            return {_value(k, native): _value(v, native) for k, v in content}
        case "float":
            return float(content)
        case _:
            return native(_NATIVE[mark](content))


class Subclass:
    """A spec with its imported class and its parsed context; raises ExecutionError WIR926 if either fails.

    The class must have torch's two methods. Nothing else in its module is called.
    """

    def __init__(self, spec: ir.SubclassSpec, native: Native) -> None:
        self.spec = spec
        cls = class_of(spec.type_name)
        methods = ("__tensor_flatten__", "__tensor_unflatten__")
        if not isinstance(cls, type) or not all(callable(getattr(cls, name, None)) for name in methods):
            raise ExecutionError(
                "WIR926",
                f"{spec.type_name!r} of the signature is not a class of tensors that wrap others",
                hint="do not use this file",
            )
        self._cls: Any = cls  # Any: a class of the user's
        self._context = read_context(spec.context, native)

    def unwrap(self, tensor: Any) -> list[object]:  # Any: an argument of every kind
        """Returns the parts of a tensor; raises ExecutionError WIR926 for another class, context or shape."""
        spec = self.spec
        if type(tensor) is not self._cls:
            raise _mismatch(
                spec, f"a tensor of class {type(tensor).__module__}:{type(tensor).__qualname__} was given"
            )
        attributes, context = tensor.__tensor_flatten__()
        if tuple(attributes) != spec.attributes or context != self._context:
            raise _mismatch(spec, f"it wraps {list(attributes)} with context {context!r}")
        sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
        parts = [getattr(tensor, name) for name in spec.attributes]  # the names that the class gave
        return [*parts, *_missing(spec, spec.sizes, sizes), *_missing(spec, spec.strides, strides)]

    def wrap(self, parts: Sequence[object]) -> object:
        """Returns a tensor that wraps `parts`, ordered as `unwrap` returns them."""
        spec, count = self.spec, len(self.spec.attributes)
        inner = dict(zip(spec.attributes, parts[:count], strict=True))
        rest = iter(parts[count:])
        sizes = tuple(next(rest) if n is None else n for n in spec.sizes)
        strides = tuple(next(rest) if n is None else n for n in spec.strides)
        return self._cls.__tensor_unflatten__(inner, self._context, sizes, strides)


def _missing(spec: ir.SubclassSpec, declared: tuple[int | None, ...], actual: tuple[int, ...]) -> list[int]:
    """Returns the numbers that the spec leaves open. All others must be as captured."""
    if len(declared) != len(actual) or any(k is not None and k != g for k, g in zip(declared, actual)):
        expected = ["any" if k is None else k for k in declared]
        raise _mismatch(spec, f"its sizes or strides are {list(actual)} instead of {expected}")
    return [g for k, g in zip(declared, actual) if k is None]


def _mismatch(spec: ir.SubclassSpec, difference: str) -> ExecutionError:
    return ExecutionError(
        "WIR926",
        f"an input was captured as {spec.type_name} with {list(spec.attributes)} "
        f"and context {spec.context}; {difference}",
        hint="capture again with such a tensor",
    )
