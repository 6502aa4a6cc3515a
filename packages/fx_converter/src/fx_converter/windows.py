"""Windows of a module's constants: their nodes, and the tensors that are kept between calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import torch
from torch import Tensor, fx, nn

from fx_converter import targets
from fx_converter.kernels import LoadedTarget
from fx_converter.nodes import Argument
from fx_converter.passes.calls import mentioned
from wrapper_ir_torch import FAST_VIEW

_REBINDERS: frozenset[object] = frozenset(
    {targets.resize_storage, targets.set_like, targets.set_storage, torch.ops.aten.set_.source_Tensor}
)
_READERS: frozenset[object] = frozenset(
    {
        FAST_VIEW,
        targets.assert_finite,
        targets.assert_layout,
        targets.check_apart,
        targets.check_result,
        targets.check_storages,
        targets.check_written,
        targets.free,
    }
)
_PLAIN = frozenset({Tensor, nn.Parameter})
_address = Tensor.data_ptr
_dtype = attrgetter("dtype")


def constant_windows(nodes: Sequence[fx.Node]) -> dict[fx.Node, fx.Node]:
    """Maps windows of fixed size of an attribute, or of another such window, to their source, sources first.

    Windows that an operator writes, views or returns are excluded: changes that autograd or a caller applies
    to the tensor must not persist to the next call. There are none if a tensor is given another storage.
    """
    windows: dict[fx.Node, fx.Node] = {}
    if any(node.target in _REBINDERS for node in nodes if node.op == "call_function"):
        return windows
    for node in nodes:
        inputs = node.all_input_nodes
        if node.target is not FAST_VIEW or len(inputs) != 1:
            continue
        if (inputs[0].op == "get_attr" or inputs[0] in windows) and all(_reads(u, node) for u in node.users):
            windows[node] = inputs[0]
    return windows


def _reads(user: fx.Node, window: fx.Node) -> bool:
    """Returns whether a node only reads or writes a window's bytes, or creates a window of it."""
    target = user.target
    if user.op != "call_function":
        return False
    if isinstance(target, LoadedTarget) or target in _READERS:
        return True
    if not isinstance(target, torch._ops.OpOverload):
        return False
    for position, parameter in enumerate(target._schema.arguments):
        argument = user.args[position] if position < len(user.args) else user.kwargs.get(parameter.name)
        if parameter.alias_info is not None and window in mentioned(argument):
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Cache:
    """Windows and their sources. The sources are referenced, so that no other tensor has the identity of one
    of them."""

    sources: tuple[Tensor, ...]
    identities: list[int]
    addresses: list[int]
    dtypes: list[torch.dtype]
    windows: tuple[Tensor, ...]


class Windows:
    """Windows of tensors, cached until identity, address or dtype of a source changes. A layout is the source
    of a window (the position of a tensor or, after those, of an earlier window) and the arguments of
    `FAST_VIEW`. A tensor that was replaced is released by the next call."""

    def __init__(self, layouts: Sequence[tuple[int, tuple[Argument, ...]]]) -> None:
        self._layouts = layouts
        self._cache: _Cache | None = None

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Returns the windows in order."""
        cache = self._cache
        if (
            cache is not None
            and [*map(id, tensors)] == cache.identities
            and [*map(_address, tensors)] == cache.addresses
            and [*map(_dtype, tensors)] == cache.dtypes
        ):
            return cache.windows
        return self._make(tensors)

    def _make(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        self._cache = None  # frees the old windows before creating new ones
        bases = [*tensors]
        with torch.inference_mode(False):
            for source, args in self._layouts:
                bases.append(FAST_VIEW(bases[source], *args))
        windows = tuple(bases[len(tensors) :])
        if _PLAIN.issuperset(map(type, tensors)):  # tensors of tracers may have no address
            addresses, dtypes = [*map(_address, tensors)], [*map(_dtype, tensors)]
            self._cache = _Cache(tensors, [*map(id, tensors)], addresses, dtypes, windows)
        return windows
