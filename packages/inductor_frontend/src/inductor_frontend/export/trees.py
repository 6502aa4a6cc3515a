"""Input and output structures: converts torch's pytree specs to those of the signature.

Data classes that are not registered as pytrees are structures too, as in torch.compile. torch.export receives
and returns them as a container of this module.
"""

from __future__ import annotations

import dataclasses
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from inductor_frontend.errors import CaptureError
from inductor_frontend.export.names import class_name
from inductor_frontend.torch_patches._compat import is_namedtuple, spec_children
from wrapper_ir import ir

# Any in this file: the user's structures, and torch's loosely typed specs.
_LEAF = ir.TreeSpec(kind=ir.TreeKind.LEAF)


def to_tree(spec: pytree.TreeSpec) -> ir.TreeSpec:
    """Converts a pytree spec; raises CaptureError FE102 for containers that cannot be serialized."""
    if spec.is_leaf():
        return _LEAF
    children = tuple(to_tree(c) for c in spec_children(spec))
    kind: Any = spec.type
    if kind is tuple:
        return ir.TreeSpec(kind=ir.TreeKind.TUPLE, children=children)
    if kind is list:
        return ir.TreeSpec(kind=ir.TreeKind.LIST, children=children)
    if kind is dict:
        return ir.TreeSpec(kind=ir.TreeKind.DICT, children=children, keys=_keys(spec.context))
    if kind is _Packed:
        cls, fields = spec.context
        return ir.TreeSpec(kind=ir.TreeKind.DATACLASS, children=children, keys=fields, type_name=_name(cls))
    if is_namedtuple(spec):  # the class of the container is its context
        kind = spec.context
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return ir.TreeSpec(
            kind=ir.TreeKind.NAMEDTUPLE, children=children, keys=tuple(kind._fields), type_name=_name(kind)
        )
    keys = _keys(spec.context) if kind is OrderedDict else ()
    return ir.TreeSpec(
        kind=ir.TreeKind.CUSTOM, children=children, keys=keys, type_name=_name(kind), context=_context(spec)
    )


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def check_classes(spec: pytree.TreeSpec, *, creates: bool) -> None:
    """Raises CaptureError FE102 for a container whose class a call needs, and that cannot be imported by its
    name.

    `creates`: whether calls create the containers. As an argument, any named tuple is accepted.
    """
    if spec.is_leaf():
        return
    kind: Any = spec.context if is_namedtuple(spec) else spec.type
    if kind is _Packed:
        kind = spec.context[0]
    is_tuple = isinstance(kind, type) and issubclass(kind, tuple)
    if kind not in (tuple, list, dict) and (creates or not is_tuple):
        class_name(kind)
    for child in spec_children(spec):
        check_classes(child, creates=creates)


def _keys(keys: Iterable[object]) -> tuple[str, ...]:
    try:
        return tuple(json.dumps(k) for k in keys)
    except TypeError as error:
        raise CaptureError("FE102", f"dict keys {list(keys)!r} cannot be serialized: {error}") from error


def _context(spec: pytree.TreeSpec) -> str:
    """Serializes a container's context to JSON, by the functions that its class was registered with."""
    serializer = pytree.SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    dump = None if serializer is None else serializer.to_dumpable_context
    try:
        value = spec.context if dump is None else dump(spec.context)
        text = value if dump is not None and isinstance(value, str) else json.dumps(value)
    except TypeError as error:
        raise _unsaid(spec, str(error)) from error
    if dump is None and json.loads(text) != spec.context:
        raise _unsaid(spec, f"JSON converts its context {spec.context!r} to {json.loads(text)!r}")
    return text


def _unsaid(spec: pytree.TreeSpec, why: str) -> CaptureError:
    return CaptureError(
        "FE102",
        f"a container of class {spec.type.__module__}:{spec.type.__qualname__} cannot be serialized: {why}",
        hint="register it with torch.utils._pytree.register_pytree_node, with a serializable context",
    )


# --- unregistered data classes


class _Packed:
    """A container, registered with torch, of the fields of a data class."""

    def __init__(self, cls: type, fields: tuple[str, ...], values: list[object]) -> None:
        self.cls = cls
        self.fields = fields
        self.values = values


pytree.register_pytree_node(
    _Packed,
    lambda packed: (packed.values, (packed.cls, packed.fields)),
    lambda values, context: _Packed(context[0], context[1], list(values)),
    flatten_with_keys_fn=lambda packed: (
        [(pytree.GetAttrKey(name), value) for name, value in zip(packed.fields, packed.values)],
        (packed.cls, packed.fields),
    ),
)


def pack(tree: object) -> Any:
    """Replaces unregistered data classes in a structure by containers."""
    return _map(tree, _is_unregistered, lambda x: _Packed(type(x), _fields(x), [pack(v) for v in _values(x)]))


def unpack(tree: object) -> object:
    """Restores the data classes of a structure; the inverse of `pack`."""
    return _map(
        tree,
        lambda x: isinstance(x, _Packed),
        lambda x: x.cls(**dict(zip(x.fields, (unpack(v) for v in x.values), strict=True))),
    )


def _fields(x: Any) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(x))


def _values(x: Any) -> list[object]:
    return [getattr(x, name) for name in _fields(x)]


def _is_unregistered(x: object) -> bool:
    """Returns whether `x` is an unregistered data class that its fields alone define."""
    return (
        dataclasses.is_dataclass(x)
        and not isinstance(x, (type, torch.Tensor))
        and type(x) not in pytree.SUPPORTED_NODES
        and all(f.init for f in dataclasses.fields(x))
    )


def _map(tree: Any, matches: Callable[[object], bool], change: Callable[[Any], object]) -> object:
    """Applies `change` to the matching parts of `tree`; returns the same object if no part matches."""
    if matches(tree):
        return change(tree)
    kind = type(tree)
    if kind in (tuple, list):
        items = [_map(x, matches, change) for x in tree]
        return tree if all(a is b for a, b in zip(items, tree)) else kind(items)
    if kind is dict or kind is OrderedDict:
        pairs = {k: _map(v, matches, change) for k, v in tree.items()}
        return tree if all(pairs[k] is v for k, v in tree.items()) else kind(pairs)
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        items = [_map(x, matches, change) for x in tree]
        return tree if all(a is b for a, b in zip(items, tree)) else kind(*items)
    return tree
