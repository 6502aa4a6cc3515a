"""Encodes AOTAutograd's runtime metadata as JSON, and decodes it, class by class.

Only classes of some modules of AOTAutograd are written, and only these are created when reading. No name in a
file is imported, called or evaluated.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch._C import _functionalization as views
from torch._functorch._aot_autograd import descriptors, schemas
from torch._functorch._aot_autograd.functional_utils import ViewMetaSequence
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from inductor_frontend.cache.operators import NoCanonicalForm
from inductor_frontend.cache.sizes import Json
from wrapper_ir_runtime.cache import DamagedEntry

# Any in this file: fields of AOTAutograd's metadata classes.
_MODULES = (schemas.__name__, descriptors.__name__)
_TENSORS = (torch.Tensor, torch.nn.Parameter, FakeTensor, FunctionalTensor)
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool, type(None))
_TYPES: Mapping[str, type] = MappingProxyType({t.__name__: t for t in (*_TENSORS, *_NUMBERS)})
_TORCH: Mapping[str, type] = MappingProxyType(
    {"dtype": torch.dtype, "memory_format": torch.memory_format, "layout": torch.layout}
)


def encode_metadata(value: object) -> Json:
    """Encodes a value as JSON; raises NoCanonicalForm for classes without an encoding."""
    match value:
        case enum.Enum():
            return {"enum": _class_name(type(value)), "name": value.name}
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": value.hex()}
        case torch.Size():
            return {"size": [encode_metadata(x) for x in value]}
        case list():
            return [encode_metadata(x) for x in value]
        case tuple() if type(value) is tuple:
            return {"tuple": [encode_metadata(x) for x in value]}
        case set():
            return {"set": [encode_metadata(x) for x in sorted(value)]}
        case dict():
            return {"dict": [[encode_metadata(k), encode_metadata(v)] for k, v in value.items()]}
        case torch.device():
            return {"device": str(value)}
        case torch.dtype() | torch.memory_format() | torch.layout():
            return {"torch": str(value).removeprefix("torch.")}
        case ViewMetaSequence():
            return {"views": [_write_view(v) for v in value.sequence]}
        case type() if _TYPES.get(value.__name__) is value:
            return {"type": value.__name__}
        case _:
            pass
    if dataclasses.is_dataclass(value):
        name = _class_name(type(value))
        return {"class": name, "fields": {field: encode_metadata(x) for field, x in vars(value).items()}}
    raise NoCanonicalForm(f"metadata of autograd with a {type(value).__qualname__}")


def _write_view(view: Any) -> Json:
    """Encodes one view operator between an input and an output, with its arguments."""
    name = type(view).__name__
    if view.has_symbolic_inputs or getattr(views, name, None) is not type(view):
        raise NoCanonicalForm(f"a view with {name}")
    modes = views.InverseReturnMode  # type: ignore[attr-defined]  # not in the stubs
    return [name, [{"mode": x.name} if isinstance(x, modes) else encode_metadata(x) for x in view.as_tuple()]]


def _read_views(body: Any) -> ViewMetaSequence:
    """Decodes the views of an output. `metadata`, which AOTAutograd compares while it traces, is not
    restored."""
    modes = views.InverseReturnMode.__members__  # type: ignore[attr-defined]  # not in the stubs
    steps = []
    for name, arguments in body:
        cls = getattr(views, name, None) if name.endswith("_ViewMeta") else None
        if cls is None:
            raise DamagedEntry(f"unknown view {name}")
        steps.append(
            cls(
                tuple(
                    modes[x["mode"]] if isinstance(x, dict) and "mode" in x else decode_metadata(x)
                    for x in arguments
                )
            )
        )
    sequence = object.__new__(ViewMetaSequence)
    sequence.sequence, sequence.metadata = steps, None  # type: ignore[assignment]  # metadata is not restored
    return sequence


def _class_name(cls: type) -> str:
    if cls.__module__ not in _MODULES or getattr(sys.modules[cls.__module__], cls.__name__, None) is not cls:
        raise NoCanonicalForm(f"metadata of autograd of class {cls.__qualname__}")
    return f"{cls.__module__}:{cls.__name__}"


def decode_metadata(data: Json) -> Any:
    """Decodes a value; raises DamagedEntry if `data` is malformed or from another version of torch."""
    match data:
        case None | bool() | int() | str():
            return data
        case [*items]:
            return [decode_metadata(x) for x in items]
        case {"enum": str(cls), "name": str(name)}:
            return _find(cls, enum.Enum)[name]
        case {"class": str(cls), "fields": dict(fields)}:
            # As AOTAutograd's cache does: restore the fields directly, since a constructor would derive them
            # again.
            instance = object.__new__(_find(cls, object))
            vars(instance).update({name: decode_metadata(x) for name, x in fields.items()})
            return instance
        case dict() if len(data) == 1:
            [(kind, body)] = data.items()
            read = _READERS.get(kind)
            if read is not None:
                return read(body)
    raise DamagedEntry(f"malformed metadata: {data!r}")


def _find(name: str, base: type) -> Any:
    module, _, cls = name.partition(":")
    candidate = getattr(sys.modules[module], cls, None) if module in _MODULES else None
    if not (isinstance(candidate, type) and issubclass(candidate, base)):
        raise DamagedEntry(f"unknown class {name}")
    return candidate


def _torch(body: Any) -> object:
    value = getattr(torch, body, None)
    if not isinstance(value, tuple(_TORCH.values())):
        raise DamagedEntry(f"unknown torch.{body}")
    return value


_READERS: Mapping[str, Callable[[Any], object]] = MappingProxyType(
    {
        "float": float.fromhex,
        "size": lambda body: torch.Size(map(decode_metadata, body)),
        "tuple": lambda body: tuple(map(decode_metadata, body)),
        "set": lambda body: set(map(decode_metadata, body)),
        "dict": lambda body: {decode_metadata(k): decode_metadata(v) for k, v in body},
        "device": torch.device,
        "torch": _torch,
        "type": lambda body: _TYPES[body],
        "views": _read_views,
    }
)
