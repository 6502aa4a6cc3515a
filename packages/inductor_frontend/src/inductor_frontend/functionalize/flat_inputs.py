"""The plain inputs of a functional graph: maps each placeholder to an input leaf or a constant."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from inductor_frontend.constants import ConstantRole
from inductor_frontend.export.subclasses import constant_parts, input_spec, is_wrapper, parts_of
from inductor_frontend.functionalize.overlaps import FlatInput
from wrapper_ir import ir


class FlatInputs:
    """Names the inputs and flattens wrappers, in torch's order.

    `leaves`: the leaves of inputs, by name. `roles`: the constants, by name. `unwraps` and `names` are as in
    the signature; the `names` argument names the leaves of the arguments.
    """

    def __init__(self, inputs: Sequence[FlatInput], names: Sequence[str]) -> None:
        self.leaves: dict[str, int] = {}
        self.roles: dict[str, ConstantRole] = {}
        self.unwraps: list[ir.Unwrap] = []
        self.wrappers: dict[int, int] = {}
        """Maps a leaf that is part of a wrapper argument to the leaf of that argument."""
        self._order: list[str] = []
        self._names = list(names)
        for item in inputs:
            parts = [(item.name, item.value)]
            if is_wrapper(item.value):
                parts = [(item.name + name.replace(".", "_"), part) for name, part in parts_of(item.value)]
            self._order += [name for name, _ in parts]
            if item.role is not None:
                self.roles |= zip((n for n, _ in parts), constant_parts(item.role), strict=True)
            elif item.leaf is not None:
                self.leaves |= zip((n for n, _ in parts), self._leaves_of(item.value, item.leaf), strict=True)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all leaves, for messages."""
        return tuple(self._names)

    def name_placeholders(self, graph: fx.Graph) -> None:
        """Renames a graph's placeholders to the names of their inputs."""
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        for node in graph.nodes:
            if node.op != "placeholder" and node.name in self._order:
                node._rename(f"{node.name}_")
        for node, name in zip(placeholders, self._order, strict=True):
            node.name = node.target = name

    def _leaves_of(self, value: object, leaf: int, whole: int | None = None) -> list[int]:
        """Returns the leaves of the plain parts of an argument; new leaves are numbered after all others."""
        if whole is not None:
            self.wrappers[leaf] = whole
        if not is_wrapper(value):
            return [leaf]
        whole = leaf if whole is None else whole
        spec = input_spec(value)
        self.unwraps.append(ir.Unwrap(leaf=leaf, subclass=spec))
        first = len(self._names)
        labels = (*spec.attributes, *("size" for _ in range(spec.num_parts - len(spec.attributes))))
        self._names += [f"{self._names[leaf]}.{label}" for label in labels]
        leaves: list[int] = []
        for number in range(spec.num_parts):
            is_tensor = number < len(spec.attributes)
            inner = getattr(value, spec.attributes[number]) if is_tensor else None  # named by the class
            leaves += self._leaves_of(inner, first + number, whole)
        return leaves
