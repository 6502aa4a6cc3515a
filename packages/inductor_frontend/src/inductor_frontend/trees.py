"""Input and output structures: torch's pytree specs as the signature's own typed ones."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

from torch.utils import _pytree as pytree

from inductor_frontend._compat import is_namedtuple, spec_children
from inductor_frontend.errors import CaptureError
from wrapper_ir.signature import TreeKind, TreeSpec

__all__ = ["to_tree"]

_LEAF = TreeSpec(kind=TreeKind.LEAF)


def to_tree(spec: pytree.TreeSpec) -> TreeSpec:
    """The signature's form of a pytree spec; raises CaptureError FE102 for containers that cannot be written down."""
    if spec.is_leaf():
        return _LEAF
    children = tuple(to_tree(c) for c in spec_children(spec))
    kind: Any = spec.type  # Any: upstream types it loosely
    if kind is tuple:
        return TreeSpec(kind=TreeKind.TUPLE, children=children)
    if kind is list:
        return TreeSpec(kind=TreeKind.LIST, children=children)
    if kind is dict:
        return TreeSpec(kind=TreeKind.DICT, children=children, keys=_keys(spec.context))
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return TreeSpec(
            kind=TreeKind.NAMEDTUPLE, children=children, keys=tuple(kind._fields), type_name=_name(kind)
        )
    if is_namedtuple(spec):  # the container's class is its context
        cls = spec.context
        return TreeSpec(
            kind=TreeKind.NAMEDTUPLE, children=children, keys=tuple(cls._fields), type_name=_name(cls)
        )
    keys = _keys(spec.context) if kind is OrderedDict else ()
    return TreeSpec(
        kind=TreeKind.CUSTOM, children=children, keys=keys, type_name=_name(kind), context=_context(spec)
    )


def _keys(keys: Any) -> tuple[str, ...]:  # Any: dict keys
    try:
        return tuple(json.dumps(k) for k in keys)
    except TypeError as error:
        raise CaptureError("FE102", f"dict keys {list(keys)!r} cannot be written down: {error}") from error


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _context(spec: pytree.TreeSpec) -> str:
    """The container's context as JSON, through the functions that its class was registered with."""
    serializer = pytree.SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    dump = None if serializer is None else serializer.to_dumpable_context
    try:
        value = spec.context if dump is None else dump(spec.context)
        return value if dump is not None and isinstance(value, str) else json.dumps(value)
    except TypeError as error:
        raise CaptureError(
            "FE102",
            f"a container of class {_name(spec.type)} cannot be written down: {error}",
            hint="register it with torch.utils._pytree.register_pytree_node, with a serialisable context",
        ) from error
