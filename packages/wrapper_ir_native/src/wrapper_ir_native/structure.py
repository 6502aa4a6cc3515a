"""The model's arguments and outputs: nested structures, as the signature in a library's metadata says.

A structure is JSON: `{"kind": "dict", "keys": [...], "children": [...]}`. No class is imported: classes of
the capture that the process has not imported are replaced by plain containers.
"""

from __future__ import annotations

import collections
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from wrapper_ir_native.errors import ArgumentError, UnsupportedError

Json: TypeAlias = Any  # a document that the library's checksums protect
Item: TypeAlias = Any  # an argument, a result, or a container of them
_CAPTURED = "call it with the structure of arguments that it was captured with"


def keys_of(tree: Json) -> list[Item]:
    """Returns the keys of a dict, or the fields of a named tuple or data class."""
    keys = tree.get("keys", ())
    return [json.loads(key) for key in keys] if tree["kind"] == "dict" else list(keys)


def count_leaves(tree: Json) -> int:
    """Returns the number of leaves of a structure."""
    return 1 if tree["kind"] == "leaf" else sum(map(count_leaves, tree.get("children", ())))


def literal(value: Json) -> Item:
    """Returns the Python object of a literal argument in JSON. Raises UnsupportedError WIR916."""
    match value:
        case None | bool() | int():
            return value
        case {"float": number}:
            return float(number)
        case {"str": str(text)}:
            return text
        case {"list": list(items)}:
            return [literal(item) for item in items]
        case {"complex": [real, imaginary]}:
            return complex(literal(real), literal(imaginary))
        case _:
            raise UnsupportedError("WIR916", f"the signature has {value}, which is a type of torch")


# --- arguments


def flatten(tree: Json, value: Item, place: str) -> Iterator[Item]:
    """Yields the leaves of a value, depth first. Raises ArgumentError WIR926 for another structure."""
    kind = tree["kind"]
    if kind == "leaf":
        yield value
        return
    children: Sequence[Json] = tree.get("children", ())
    parts = _parts(tree, value, place)
    if len(parts) != len(children):
        raise _mismatch(place, f"{len(children)} elements", f"{len(parts)}")
    names = keys_of(tree) or range(len(children))
    for name, child, part in zip(names, children, parts, strict=True):
        yield from flatten(child, part, f"{place}[{name!r}]" if place else str(name))


def _parts(tree: Json, value: Item, place: str) -> Sequence[Item]:
    kind, keys = tree["kind"], keys_of(tree)
    match kind:
        case "none":
            if value is not None:
                raise _mismatch(place, "None", type(value).__name__)
            return ()
        case "tuple" | "list":
            if not isinstance(value, list if kind == "list" else tuple):
                raise _mismatch(place, kind, type(value).__name__)
            return value
        case "dict":
            if not isinstance(value, Mapping):
                raise _mismatch(place, "dict", type(value).__name__)
            if set(value) != set(keys):
                raise _mismatch(place, f"keys {keys}", f"{list(value)}")
            return [value[key] for key in keys]
        case _:
            return _parts_of_class(tree, value, keys, place)


def _parts_of_class(tree: Json, value: Item, keys: Sequence[str], place: str) -> Sequence[Item]:
    """Returns the parts of an object of a class, or of a plain container in its place."""
    keys = keys or _context_keys(tree) or ()
    if isinstance(value, tuple | list):
        return value
    if keys and isinstance(value, Mapping) and set(value) == set(keys):
        return [value[key] for key in keys]
    if keys and all(hasattr(value, key) for key in keys):
        return [getattr(value, key) for key in keys]  # fields, by name
    raise _mismatch(place, tree.get("type_name") or tree["kind"], type(value).__name__)


def _context_keys(tree: Json) -> list[str] | None:
    """Returns the keys in the context of a registered container, such as an output of transformers."""
    try:
        keys = json.loads(tree.get("context") or "null")
    except ValueError:
        return None
    is_keys = isinstance(keys, list) and len(keys) == len(tree.get("children", ()))
    return keys if is_keys and all(isinstance(key, str) for key in keys) else None


def _mismatch(place: str, want: str, got: str) -> ArgumentError:
    where = f"argument {place}" if place else "arguments"
    return ArgumentError("WIR926", f"{where}: expected {want}, got {got}", _CAPTURED)


# --- results


def builder(tree: Json) -> Callable[[Iterator[Item]], Item]:
    """Returns a function that builds the structure from its leaves, depth first."""
    if tree["kind"] == "leaf":
        return next
    children = [builder(child) for child in tree.get("children", ())]
    make = _maker(tree)
    return lambda leaves: make([child(leaves) for child in children])


def _maker(tree: Json) -> Callable[[list[Item]], Item]:
    keys = keys_of(tree)
    match tree["kind"]:
        case "none":
            return lambda parts: None
        case "tuple":
            return tuple
        case "list":
            return list
        case "dict":
            return lambda parts: dict(zip(keys, parts, strict=True))
        case "namedtuple" | "dataclass":
            fields_class = _class_with(tree.get("type_name", ""), keys)
            return lambda parts: fields_class(**dict(zip(keys, parts, strict=True)))
        case _:
            names = _context_keys(tree)
            return tuple if names is None else lambda parts: dict(zip(names, parts, strict=True))


def _class_with(type_name: str, fields: Sequence[str]) -> type:
    """Returns a class with these fields: the named one if its module is imported, otherwise a named tuple."""
    module, _, name = type_name.partition(":")
    cls = vars(sys.modules[module]).get(name) if module in sys.modules else None
    own = getattr(cls, "_fields", None) or tuple(getattr(cls, "__dataclass_fields__", ()))
    if isinstance(cls, type) and tuple(own) == tuple(fields):
        return cls
    return collections.namedtuple(name.rpartition(".")[2] or "Result", fields)


# --- calls


class Parameter(NamedTuple):
    """A parameter of the model's function; `kind` is `positional`, `any` or `keyword`."""

    name: str
    kind: str
    required: bool
    default: Item


class Arguments:
    """The arguments of a model, as its signature says."""

    def __init__(self, signature: Json) -> None:
        """Raises UnsupportedError WIR916 for a signature that needs torch."""
        self._tree = signature["inputs"]
        self._positional, self._keywords = self._tree["children"]
        self._keys = [str(key) for key in keys_of(self._keywords)]
        self._parameters = [
            Parameter(p["name"], p.get("kind", "any"), p.get("required", True), literal(p.get("default")))
            for p in signature.get("parameters", ())
        ]
        self._by_name = {p.name: p for p in self._parameters}
        self._is_flat = not self._keys and all(
            child["kind"] == "leaf" for child in self._positional.get("children", ())
        )
        self._count = len(self._positional.get("children", ()))

    def leaves(self, args: Sequence[Item], kwargs: Mapping[str, Item]) -> list[Item]:
        """Returns all leaves of a call, depth first. Raises ArgumentError WIR926 for another structure."""
        if self._is_flat and not kwargs and len(args) == self._count:
            return list(args)
        positional, keywords = self._arranged(args, kwargs) if self._parameters else (args, kwargs)
        names = [p.name for p in self._parameters if p.kind != "keyword"]
        leaves: list[Item] = []
        children = self._positional.get("children", ())
        if len(positional) != len(children):
            raise _mismatch("", f"{len(children)} positional ones", str(len(positional)))
        for number, (child, value) in enumerate(zip(children, positional, strict=True)):
            leaves += flatten(child, value, names[number] if number < len(names) else str(number))
        leaves += flatten(self._keywords, keywords, "")
        return leaves

    def _arranged(
        self, args: Sequence[Item], kwargs: Mapping[str, Item]
    ) -> tuple[Sequence[Item], Mapping[str, Item]]:
        """Returns the same call with arguments by position or keyword as at capture."""
        rest = dict(kwargs)
        positional = [p for p in self._parameters if p.kind != "keyword"]
        arguments = {p.name: value for p, value in zip(positional, args)}
        extra = tuple(args[len(arguments) :])
        room = max(0, self._count - len(positional))
        if len(extra) not in ({room} if room else {0}):
            limit = len(positional) + room
            raise ArgumentError("WIR926", f"arguments: expected at most {limit}, got {len(args)}")
        for parameter in self._parameters:
            if parameter.kind == "positional" or parameter.name not in rest:
                continue
            if parameter.name in arguments:
                raise ArgumentError("WIR926", f"argument {parameter.name} is given twice")
            arguments[parameter.name] = rest.pop(parameter.name)
        by_position = tuple(self._take(p, arguments) for p in positional[: self._count]) + extra
        by_keyword = {
            key: self._take(self._by_name[key], arguments) if key in self._by_name else rest.pop(key)
            for key in self._keys
            if key in self._by_name or key in rest
        }
        for name, value in arguments.items():  # left to their defaults at capture
            expect_static(name, value, self._by_name[name].default)
        return by_position, {**by_keyword, **rest}

    def _take(self, parameter: Parameter, arguments: dict[str, Item]) -> Item:
        if parameter.name in arguments:
            return arguments.pop(parameter.name)
        if parameter.required:
            raise ArgumentError("WIR926", f"argument {parameter.name} is missing", "it was given at capture")
        return parameter.default


def expect_static(name: str, got: Item, want: Item) -> None:
    """Raises ArgumentError WIR926 unless an input has the value that was captured."""
    is_equal = type(got) is type(want) and (got == want or (got != got and want != want))  # nan is nan here
    if not is_equal:
        raise ArgumentError(
            "WIR926",
            f"input {name} was captured as {want!r} and cannot be {got!r}",
            "capture again with this value, or make it an input tensor",
        )
