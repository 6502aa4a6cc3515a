"""Constants of a module by the names that the model has for them.

The graph refers to a constant by its first name, as `h.bias` in a module `h`. Other names of it are buffers over the same tensor.
Names that the text of `forward` cannot say are those of `state_dict` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, fx, nn

from wrapper_ir.artifact import Artifact
from wrapper_ir.support.quoting import is_python_name

STATE = "model_state"
"""The entry of an artifact's metadata with the model's names that no constant has."""
# Any in this file: constants, of which packed ones are torch's own objects


class ModelState:
    """Names of a model beside those of a module's buffers: `unused` ones are of tensors that the program does not read, `aliases` give
    the buffer of a name that no attribute can have."""

    def __init__(self, unused: Iterable[str] = (), aliases: Mapping[str, str] | None = None) -> None:
        self.unused = frozenset(unused)
        self.aliases = dict(aliases or {})

    def to_buffers(self, state: dict[str, Any], prefix: str) -> None:
        """Renames entries of the model's state that is about to be loaded."""
        for name in self.unused:
            state.pop(prefix + name, None)
        for name, buffer in self.aliases.items():
            if prefix + name in state:
                state[prefix + buffer] = state.pop(prefix + name)

    def from_buffers(self, state: dict[str, Any], prefix: str) -> None:
        """Renames entries of a module's state."""
        for name, buffer in self.aliases.items():
            if prefix + buffer in state:
                state[prefix + name] = state[prefix + buffer]
        for buffer in {*self.aliases.values()}:
            state.pop(prefix + buffer, None)


def is_path(name: str) -> bool:
    """Whether a name can be the target of a node: names that Python allows and modules leave free, and numbers as lists of modules
    have."""
    return all(
        (is_python_name(part) and not hasattr(nn.Module, part)) or (part.isascii() and part.isdecimal())
        for part in name.split(".")
    )


class Paths:
    """Dotted paths that lead to values, none through another one's value."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._modules: set[str] = set()

    def add(self, path: str) -> None:
        """Takes a path."""
        self._values.add(path)
        self._modules.update(_ways(path))

    def is_taken(self, path: str) -> bool:
        """Whether there is a value or a module, or the path leads through a value."""
        return path in self._values or path in self._modules or not self._values.isdisjoint(_ways(path))


def _ways(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def place(root: nn.Module, path: str, held: Tensor, *, persistent: bool = True) -> None:
    """Registers a buffer by a dotted path, with modules on the way."""
    *way, name = path.split(".")
    for part in way:
        if part not in root._modules:
            root.add_module(part, nn.Module())
        inner = root._modules[part]
        assert inner is not None
        root = inner
    root._buffers.pop(name, None)
    root.register_buffer(name, held, persistent=persistent)


def buffers_of(root: nn.Module, path: str) -> str:
    """The text for the dictionary that has a buffer, from a variable `self`; '' if it is not one."""
    *way, name = path.split(".")
    text, module = "self", root
    for part in way:
        inner = module._modules.get(part)
        if inner is None:
            return ""
        text, module = f"{text}._modules[{part!r}]", inner
    return f"{text}._buffers" if name in module._buffers else ""


def named_state(module: fx.GraphModule, artifact: Artifact, constants: Mapping[Any, Any]) -> ModelState:
    """Gives the main module of a captured model the model's names. Constants without a name, and those of called functions, are
    not part of its state."""
    said = _said(artifact)
    if said is None:
        return ModelState()
    unused, unsaved = said
    buffers = dict(module.named_buffers(remove_duplicate=False))
    names = {name for constant in artifact.program.constants for name in constant.names}
    for path, held in buffers.items():
        if path not in names or path in unsaved:
            place(module, path, held, persistent=False)
    first = {id(held): path for path, held in reversed(buffers.items())}
    aliases: dict[str, str] = {}
    for constant in artifact.program.constants:
        tensor = constants.get(constant.value)
        if not isinstance(tensor, Tensor):
            continue
        for name in constant.names:
            if name in buffers or name in unsaved:
                continue
            if _is_free(module, name):
                place(module, name, tensor)
            elif id(tensor) in first:
                place(module, first[id(tensor)], tensor)
                aliases[name] = first[id(tensor)]
    return ModelState(unused, aliases)


def _is_free(module: fx.GraphModule, name: str) -> bool:
    """Whether a module can have a buffer of this name, in modules of its own."""
    way, _, _ = name.partition(".")
    inner = module._modules.get(way)
    return is_path(name) and (type(inner) is nn.Module if inner is not None else not hasattr(module, way))


def _said(artifact: Artifact) -> tuple[frozenset[str], frozenset[str]] | None:
    """The model's names of tensors that the program does not read, and of those that a state does not have; None for a program that
    was not captured, or of a file that says something else."""
    try:
        said = json.loads(artifact.metadata[STATE])
        return frozenset(map(str, said["unused"])), frozenset(map(str, said["unsaved"]))
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
