"""Nested structures: flattens arguments and builds results according to a `TreeSpec`."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from wrapper_ir import ir
from wrapper_ir.errors import ArgumentError, ExecutionError
from wrapper_ir.plugins.protocols import Containers

Arguments = tuple[tuple[object, ...], dict[str, object]]
"""The arguments of a call: positional, and by keyword."""


def class_of(type_name: str) -> object:
    """Returns the object named `module:qualname`; imports its module. Raises ExecutionError WIR926.

    Nothing is called. Before calling the result, the caller must check that it is a class of the expected
    kind.
    """
    module, _, qualname = type_name.partition(":")
    try:
        value: object = importlib.import_module(module)
        for part in qualname.split("."):
            value = getattr(value, part)  # the parts of a qualified name
    except (ImportError, AttributeError) as error:
        raise ExecutionError(
            "WIR926",
            f"the class {type_name!r} of the signature cannot be imported: {error}",
            hint="install the package that defines it, or call the boxed form",
        ) from error
    return value


def namedtuple_of(type_name: str, fields: Sequence[str]) -> type:
    """Returns the named tuple class with this name and these fields; raises ExecutionError WIR926
    otherwise."""
    cls = class_of(type_name)
    # named tuples have no common base class besides tuple
    if not isinstance(cls, type) or not issubclass(cls, tuple) or [*getattr(cls, "_fields", ())] != [*fields]:
        raise _wrong_class(type_name, f"no named tuple with fields {list(fields)}")
    return cls


def dataclass_of(type_name: str, fields: Sequence[str]) -> type:
    """Returns the dataclass with this name and these fields; raises ExecutionError WIR926 otherwise."""
    cls = class_of(type_name)
    if (
        not isinstance(cls, type)
        or not dataclasses.is_dataclass(cls)
        or [f.name for f in dataclasses.fields(cls)] != [*fields]
    ):
        raise _wrong_class(type_name, f"no data class with fields {list(fields)}")
    return cls


def _wrong_class(type_name: str, what: str) -> ExecutionError:
    return ExecutionError(
        "WIR926",
        f"{type_name!r} of the signature is {what}",
        hint="use the version of its package that the program was captured with",
    )


def tree_keys(spec: ir.TreeSpec) -> list[object]:
    """Returns the keys of a dict, in order."""
    return [json.loads(key) for key in spec.keys]


def flatten(spec: ir.TreeSpec, tree: object, containers: Containers | None = None) -> list[object]:
    """Returns the leaves of `tree`, depth first; raises ArgumentError WIR926 if its structure is not
    `spec`."""
    return list(_leaves(spec, tree, containers, "arguments"))


def _leaves(spec: ir.TreeSpec, tree: object, containers: Containers | None, place: str) -> Iterator[object]:
    if spec.kind is ir.TreeKind.LEAF:
        yield tree
        return
    children = _children(spec, tree, containers, place)
    if len(children) != len(spec.children):
        raise _mismatch(place, f"{len(spec.children)} elements", f"{len(children)}")
    names = spec.keys or [str(i) for i in range(len(children))]
    for name, child_spec, child in zip(names, spec.children, children, strict=True):
        yield from _leaves(child_spec, child, containers, f"{place}[{name}]")


def _children(spec: ir.TreeSpec, tree: object, containers: Containers | None, place: str) -> Sequence[object]:
    match spec.kind:
        case ir.TreeKind.NONE:
            if tree is not None:
                raise _mismatch(place, "None", type(tree).__name__)
            return ()
        case ir.TreeKind.TUPLE | ir.TreeKind.LIST | ir.TreeKind.NAMEDTUPLE:
            if not isinstance(tree, list if spec.kind is ir.TreeKind.LIST else tuple):
                raise _mismatch(place, spec.kind.value, type(tree).__name__)
            return tree
        case ir.TreeKind.DATACLASS:
            if type(tree) is not dataclass_of(spec.type_name, spec.keys):
                raise _mismatch(place, spec.type_name, type(tree).__name__)
            return [getattr(tree, name) for name in spec.keys]  # its own fields
        case ir.TreeKind.DICT:
            keys = tree_keys(spec)
            if not isinstance(tree, Mapping):
                raise _mismatch(place, "dict", type(tree).__name__)
            if set(tree) != set(keys):
                raise _mismatch(place, f"keys {keys}", f"{list(tree)}")
            return [tree[key] for key in keys]
        case ir.TreeKind.CUSTOM:
            if containers is None:
                raise _mismatch(place, "no custom containers", spec.type_name)
            try:
                return containers.flatten(spec, tree)
            except TypeError as error:
                raise _mismatch(place, spec.type_name, str(error)) from error
        case ir.TreeKind.LEAF:
            return (tree,)


def _mismatch(place: str, want: str, got: str) -> ArgumentError:
    return ArgumentError(
        "WIR926",
        f"{place}: expected {want}, got {got}",
        hint="call it with the structure of arguments that it was captured with",
    )


def unflatten(spec: ir.TreeSpec, leaves: Sequence[object], containers: Containers | None = None) -> object:
    """Builds the structure `spec` from `leaves`, depth first."""
    return tree_builder(spec, containers)(leaves)


def tree_builder(
    spec: ir.TreeSpec, containers: Containers | None = None
) -> Callable[[Sequence[object]], object]:
    """Returns a function that builds the structure `spec` from leaves, depth first.

    Classes are looked up once, here. Raises ExecutionError WIR926 for missing classes.
    """
    build = _builder(spec, containers)
    return lambda leaves: build(iter(leaves))


def _builder(spec: ir.TreeSpec, containers: Containers | None) -> Callable[[Iterator[object]], object]:
    if spec.kind is ir.TreeKind.LEAF:
        return next
    children = [_builder(child, containers) for child in spec.children]
    make = container_maker(spec, containers)
    return lambda leaves: make([child(leaves) for child in children])


def container_maker(spec: ir.TreeSpec, containers: Containers | None) -> Callable[[list[object]], object]:
    """Returns a function that builds the container of `spec`, not a leaf, from its children.

    Raises ExecutionError WIR926 for missing classes.
    """
    match spec.kind:
        case ir.TreeKind.NONE:
            return lambda children: None
        case ir.TreeKind.TUPLE:
            return tuple
        case ir.TreeKind.LIST:
            return list
        case ir.TreeKind.DICT:
            keys = tree_keys(spec)
            return lambda children: dict(zip(keys, children, strict=True))
        case ir.TreeKind.NAMEDTUPLE:
            tuple_class = namedtuple_of(spec.type_name, spec.keys)
            return lambda children: tuple_class(*children)
        case ir.TreeKind.DATACLASS:
            data_class = dataclass_of(spec.type_name, spec.keys)
            return lambda children: data_class(**dict(zip(spec.keys, children, strict=True)))
        case ir.TreeKind.CUSTOM:
            if containers is None:
                raise _mismatch("results", "no custom containers", spec.type_name)
            return containers.builder(spec)
        case ir.TreeKind.LEAF:
            raise AssertionError(spec)  # a leaf has no children


class _SerialisedNode(Protocol):
    from_dumpable_context: Callable[[object], object] | None
    to_dumpable_context: Callable[[object], object] | None


class _Node(Protocol):
    flatten_fn: Callable[[object], tuple[list[object], object]]
    unflatten_fn: Callable[[list[object], object], object]


class Pytree(Protocol):
    """The two tables of `torch.utils._pytree` that are read here. The caller passes the module."""

    # Any: torch's own entries and keys
    SUPPORTED_NODES: dict[type[Any], Any]
    SUPPORTED_SERIALIZED_TYPES: dict[Any, Any]


class PytreeContainers:
    """Containers registered with `torch.utils._pytree`, which is passed as `pytree`."""

    def __init__(self, pytree: Pytree) -> None:
        self._pytree = pytree

    def _node(self, spec: ir.TreeSpec) -> tuple[type, _Node]:
        cls = class_of(spec.type_name)
        node: _Node | None = self._pytree.SUPPORTED_NODES.get(cls) if isinstance(cls, type) else None
        if node is None or not isinstance(cls, type):
            raise ExecutionError(
                "WIR926",
                f"the class {spec.type_name!r} of the signature is not registered as a structure",
                hint="register it with torch.utils._pytree.register_pytree_node before loading",
            )
        return cls, node

    def flatten(self, spec: ir.TreeSpec, container: object) -> Sequence[object]:
        """See `Containers`."""
        cls, node = self._node(spec)
        if type(container) is not cls:
            raise TypeError(f"got {type(container).__module__}:{type(container).__qualname__}")
        return node.flatten_fn(container)[0]

    def builder(self, spec: ir.TreeSpec) -> Callable[[Sequence[object]], object]:
        """See `Containers`."""
        cls, node = self._node(spec)
        context = self._context(cls, spec.context)
        build = node.unflatten_fn

        def make(children: Sequence[object]) -> object:
            container = build(list(children), context)
            # torch registers `torch.Size` with a function that returns plain tuples
            return cls(container) if type(container) is tuple is not cls else container

        return make

    def _context(self, cls: type, text: str) -> object:
        serialised: _SerialisedNode | None = self._pytree.SUPPORTED_SERIALIZED_TYPES.get(cls)
        load = None if serialised is None else serialised.from_dumpable_context
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError):
            value = text  # the class serialises its context to text that is not JSON
        return value if load is None else load(value)


def custom_container(
    pytree: Pytree, type_name: str, context: str
) -> tuple[Callable[[object], Sequence[object]], Callable[[Sequence[object]], object]]:
    """Returns functions that flatten and build a container of a class registered with
    `torch.utils._pytree`."""
    spec = ir.TreeSpec(kind=ir.TreeKind.CUSTOM, type_name=type_name, context=context)
    containers = PytreeContainers(pytree)
    return lambda container: containers.flatten(spec, container), containers.builder(spec)
