"""Merges example inputs that share memory.

If the program writes memory that several inputs share, that memory becomes one input. All other inputs stay
independent, so that a program captured as `f(x, x)` may be called as `f(x, y)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from inductor_frontend.constants import ConstantRole
from inductor_frontend.errors import CaptureError
from inductor_frontend.export.subclasses import is_wrapper, plain_tensors
from inductor_frontend.functionalize.functional import Flat, written_inputs
from wrapper_ir import ir
from wrapper_ir.analysis.overlap import Geometry, overlap

# Any in this file: fake tensors, and symbolic or plain numbers.


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatInput:
    """One input of a flat function: its name, its fake value, and the constant or input leaf that it is."""

    name: str
    value: Any
    role: ConstantRole | None = None
    leaf: int | None = None


@dataclass(frozen=True, slots=True)
class Same:
    """Leaves that are one tensor; the first is an input."""

    leaves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """Leaves that overlap; `name` is the input that covers all of them."""

    name: str
    places: tuple[ir.SharedLeaf, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """A flat function whose inputs share no memory that it writes."""

    function: Flat
    inputs: tuple[FlatInput, ...]
    same: tuple[Same, ...] = ()
    windows: tuple[Window, ...] = ()


def merge(function: Flat, inputs: Sequence[FlatInput], fake_mode: FakeTensorMode) -> Merged:
    """Merges inputs that overlap in memory that the function writes; raises CaptureError FE106 if it
    cannot."""
    groups = _overlapping(inputs)
    if not groups:
        return Merged(function, tuple(inputs))
    targets = written_inputs(function, [i.value for i in inputs], fake_mode)
    merger = _Merger(inputs, fake_mode)
    for group in groups:
        if not targets.isdisjoint(group):
            merger.add([inputs[i] for i in group], group)
    return merger.merged(function)


def _place(value: torch.Tensor) -> tuple[str, ...]:
    """Returns sizes, strides and offset as text, so that comparing them adds no guards."""
    return tuple(str(part) for part in (tuple(value.size()), tuple(value.stride()), value.storage_offset()))


def _is_static(value: torch.Tensor) -> bool:
    return all(isinstance(n, int) for n in (*value.size(), *value.stride(), value.storage_offset()))


def _geometry(value: Any) -> Geometry:
    return Geometry(
        storage=value.untyped_storage()._cdata,
        sizes=tuple(value.size()),
        strides=tuple(value.stride()),
        offset=value.storage_offset(),
        itemsize=value.element_size(),
    )


def _touch(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Returns whether two tensors of one storage may overlap."""
    if _place(a) == _place(b) or not (_is_static(a) and _is_static(b)):
        return True
    return overlap(_geometry(a), _geometry(b))


def _overlapping(inputs: Sequence[FlatInput]) -> list[list[int]]:
    """Returns groups of inputs; each input overlaps another one of its group."""
    by_storage: dict[int, list[tuple[int, torch.Tensor]]] = {}
    for index, item in enumerate(inputs):
        for value in plain_tensors(item.value):
            by_storage.setdefault(value.untyped_storage()._cdata, []).append((index, value))
    groups: list[list[int]] = []
    for members in by_storage.values():
        apart: list[list[tuple[int, torch.Tensor]]] = []
        for index, value in members:
            met = [g for g in apart if any(_touch(value, other) for _, other in g)]
            apart = [g for g in apart if g not in met]
            apart.append([(index, value), *(i for g in met for i in g)])
        groups += [sorted({i for i, _ in g}) for g in apart]
    return [g for g in groups if len(g) > 1]


class _Merger:
    def __init__(self, inputs: Sequence[FlatInput], fake_mode: FakeTensorMode) -> None:
        self.inputs = inputs
        self.fake_mode = fake_mode
        self.source: dict[int, int] = {}
        """Merged inputs -> the input that replaces them."""
        self.windows: dict[int, Window] = {}
        """Index of the first member -> window."""
        self.bases: dict[int, FlatInput] = {}
        self.views: dict[int, ir.SharedLeaf] = {}
        self.same: list[Same] = []

    def add(self, members: Sequence[FlatInput], indices: Sequence[int]) -> None:
        names = ", ".join(m.name for m in members)
        leaves = tuple(m.leaf for m in members if m.leaf is not None)
        if len(leaves) != len(members):
            raise CaptureError(
                "FE106", f"{names} share memory that the model writes, and not all of them are arguments"
            )
        if any(is_wrapper(m.value) for m in members):
            raise CaptureError("FE106", f"{names} share memory that the model writes, and wrap other tensors")
        if len({m.value.dtype for m in members}) > 1:
            raise CaptureError("FE106", f"{names} share memory that the model writes, with several dtypes")
        self.source |= dict.fromkeys(indices[1:], indices[0])
        if len({_place(m.value) for m in members}) == 1:
            self.same.append(Same(leaves))
            return
        if not all(_is_static(m.value) for m in members):
            raise CaptureError(
                "FE106",
                f"{names} overlap in memory that the model writes, and their sizes are not constant",
                hint="capture this case with static sizes, or with inputs that do not overlap",
            )
        self._window(members, indices)

    def _window(self, members: Sequence[FlatInput], indices: Sequence[int]) -> None:
        start = min(m.value.storage_offset() for m in members)
        places = []
        for index, member in zip(indices, members, strict=True):
            assert member.leaf is not None
            value = member.value
            place = ir.SharedLeaf(
                leaf=member.leaf,
                sizes=tuple(value.size()),
                strides=tuple(value.stride()),
                offset=value.storage_offset() - start,
            )
            places.append(place)
            self.views[index] = place
        name = "_".join((*(m.name for m in members), "storage"))
        window = self.windows[indices[0]] = Window(name, tuple(places))
        count = max(
            p.offset + 1 + sum((n - 1) * s for n, s in zip(p.sizes, p.strides)) for p in window.places
        )
        with self.fake_mode:
            base = torch.empty(count, dtype=members[0].value.dtype, device=members[0].value.device)
        self.bases[indices[0]] = FlatInput(name=name, value=base, leaf=members[0].leaf)

    def merged(self, function: Flat) -> Merged:
        remaining = [i for i in range(len(self.inputs)) if i not in self.source]
        slots = {index: slot for slot, index in enumerate(remaining)}

        def run(*args: object) -> Sequence[object]:
            values: list[Any] = [args[slots[self.source.get(i, i)]] for i in range(len(self.inputs))]
            for index, place in self.views.items():
                values[index] = values[index].as_strided(place.sizes, place.strides, place.offset)
            return function(*values)

        return Merged(
            run,
            tuple(self.bases.get(i, self.inputs[i]) for i in remaining),
            tuple(self.same),
            tuple(self.windows.values()),
        )
