"""Constants of a module under the model's names.

The graph refers to a constant by its first name, as `h.bias` in a module `h`. Other names are buffers over
the same tensor. Names that are not valid in the text of `forward` exist in `state_dict` only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from torch import Tensor, fx, nn

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.artifact.packing import names_of
from wrapper_ir.support.quoting import is_python_name
from wrapper_ir_torch import original_tensor, packed_tensor

STATE = "model_state"
"""The entry of an artifact's metadata with the names of the model's state that no constant has."""


class ModelState:
    """Names of a model's state besides a module's buffers. `unused` names are of tensors that the program
    does not read, `aliases` map names that are not valid attributes to buffers. `packed` are the paths of
    buffers with packed constants, whose originals are in the state."""

    def __init__(
        self,
        unused: Iterable[str] = (),
        aliases: Mapping[str, str] | None = None,
        packed: Mapping[str, ir.Constant] | None = None,
    ) -> None:
        self.unused = frozenset(unused)
        self.aliases = dict(aliases or {})
        self.packed = dict(packed or {})

    def load_packed(self, module: nn.Module, state: dict[str, object], prefix: str) -> None:
        """Packs values of originals into buffers, and removes names that no other buffer has."""
        own = {prefix + name for name in nn.Module.state_dict(module)} | {prefix + n for n in self.aliases}
        for path, constant in self.packed.items():
            names = [prefix + name for name in names_of(constant)]
            values = [value for name in names if isinstance(value := state.get(name), Tensor)]
            if values:
                module.get_buffer(path).copy_(packed_tensor(values[0], constant))
            for name in names:
                if name not in own:
                    state.pop(name, None)

    def add_originals(self, module: nn.Module, state: dict[str, object], prefix: str) -> None:
        """Adds the originals of packed buffers to a state that lacks them."""
        for path, constant in self.packed.items():
            names = [prefix + name for name in constant.names if prefix + name not in state]
            if names:
                state.update(dict.fromkeys(names, original_tensor(module.get_buffer(path), constant)))

    def to_buffers(self, state: dict[str, object], prefix: str) -> None:
        """Renames the entries of a model's state to those of the module, before it is loaded."""
        for name in self.unused:
            state.pop(prefix + name, None)
        for name, buffer in self.aliases.items():
            if prefix + name in state:
                state[prefix + buffer] = state.pop(prefix + name)

    def from_buffers(self, state: dict[str, object], prefix: str) -> None:
        """Renames the entries of the module's state to those of the model."""
        for name, buffer in self.aliases.items():
            if prefix + buffer in state:
                state[prefix + name] = state[prefix + buffer]
        for buffer in {*self.aliases.values()}:
            state.pop(prefix + buffer, None)


def is_path(name: str) -> bool:
    """Returns whether a name can be the target of a node: Python identifiers that modules do not use, and
    numbers as in lists of modules."""
    return all(
        (is_python_name(part) and not hasattr(nn.Module, part)) or (part.isascii() and part.isdecimal())
        for part in name.split(".")
    )


class Paths:
    """Dotted paths of attributes, none of which leads through the value of another."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._modules: set[str] = set()

    def add(self, path: str) -> None:
        """Reserves a path."""
        self._values.add(path)
        self._modules.update(_ways(path))

    def is_taken(self, path: str) -> bool:
        """Returns whether the path is a value or a module, or leads through a value."""
        return path in self._values or path in self._modules or not self._values.isdisjoint(_ways(path))


def _ways(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def place(root: nn.Module, path: str, tensor: Tensor, *, persistent: bool = True) -> None:
    """Registers a buffer under a dotted path, and creates the modules on it."""
    *prefix, name = path.split(".")
    for part in prefix:
        if part not in root._modules:
            root.add_module(part, nn.Module())
        inner = root._modules[part]
        assert inner is not None
        root = inner
    root._buffers.pop(name, None)
    root.register_buffer(name, tensor, persistent=persistent)


def buffers_of(root: nn.Module, path: str) -> str:
    """Returns the text of the dictionary that contains a buffer, starting at the variable `self`; '' if the
    path is not a buffer."""
    *prefix, name = path.split(".")
    text, module = "self", root
    for part in prefix:
        inner = module._modules.get(part)
        if inner is None:
            return ""
        text, module = f"{text}._modules[{part!r}]", inner
    return f"{text}._buffers" if name in module._buffers else ""


def named_state(
    module: fx.GraphModule, artifact: Artifact, constants: Mapping[ir.Value, object]
) -> ModelState:
    """Names the buffers of a captured model's main module as the model does. Constants without a name, and
    those of called functions, are not part of its state."""
    names_of_state = _state_names(artifact)
    if names_of_state is None:
        return ModelState()
    unused, unsaved = names_of_state
    buffers = dict(module.named_buffers(remove_duplicate=False))
    names = {name for constant in artifact.program.constants for name in constant.names}
    for path, buffer in buffers.items():
        if path not in names or path in unsaved:
            place(module, path, buffer, persistent=False)
    first = {id(buffer): path for path, buffer in reversed(buffers.items())}
    aliases: dict[str, str] = {}
    packed: dict[str, ir.Constant] = {}
    for constant in artifact.program.constants:
        tensor = constants.get(constant.value)
        if not isinstance(tensor, Tensor):
            continue
        if constant.packing is not None:
            if id(tensor) in first and unsaved.isdisjoint(constant.names):
                packed[first[id(tensor)]] = constant
            continue
        for name in constant.names:
            if name in buffers or name in unsaved:
                continue
            if _is_free(module, name):
                place(module, name, tensor)
            elif id(tensor) in first:
                place(module, first[id(tensor)], tensor)
                aliases[name] = first[id(tensor)]
    return ModelState(unused, aliases, packed)


def _is_free(module: fx.GraphModule, name: str) -> bool:
    """Returns whether a module can have a buffer of this name, in newly created modules."""
    prefix, _, _ = name.partition(".")
    inner = module._modules.get(prefix)
    return is_path(name) and (type(inner) is nn.Module if inner is not None else not hasattr(module, prefix))


def _state_names(artifact: Artifact) -> tuple[frozenset[str], frozenset[str]] | None:
    """Returns the names of tensors that the program does not read, and of those that are not part of the
    state. Returns None for a program that was not captured, or for malformed metadata."""
    try:
        entry = json.loads(artifact.metadata[STATE])
        return frozenset(map(str, entry["unused"])), frozenset(map(str, entry["unsaved"]))
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
