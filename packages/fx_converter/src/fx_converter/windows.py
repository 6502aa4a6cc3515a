"""Windows of a module's constants: which nodes are such, and how they are kept from call to call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx, nn

from fx_converter import targets
from fx_converter.kernels import LoadedTarget
from fx_converter.passes.calls import mentioned
from wrapper_ir_torch import FAST_VIEW

# Any in this file: targets and arguments of nodes
_RESTLESS: frozenset[Any] = frozenset(
    {targets.resize_storage, targets.set_like, targets.set_storage, torch.ops.aten.set_.source_Tensor}
)
_READERS: frozenset[Any] = frozenset(
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
    """The nodes that are windows of fixed size of an attribute, or of such a window, each with its source, sources first.

    Those that an operator writes, views or returns are not among them: what autograd or a caller does to the tensor must
    not be there in the next call. There are none where a tensor is given another storage.
    """
    found: dict[fx.Node, fx.Node] = {}
    if any(node.target in _RESTLESS for node in nodes if node.op == "call_function"):
        return found
    for node in nodes:
        inputs = node.all_input_nodes
        if node.target is not FAST_VIEW or len(inputs) != 1:
            continue
        if (inputs[0].op == "get_attr" or inputs[0] in found) and all(_reads(u, node) for u in node.users):
            found[node] = inputs[0]
    return found


def _reads(user: fx.Node, window: fx.Node) -> bool:
    """Whether a node does no more with a window than to read or write its bytes, or to look from it."""
    target: Any = user.target
    if user.op != "call_function":
        return False
    if isinstance(target, LoadedTarget) or target in _READERS:
        return True
    if not isinstance(target, torch._ops.OpOverload):
        return False
    for position, said in enumerate(target._schema.arguments):
        given = user.args[position] if position < len(user.args) else user.kwargs.get(said.name)
        if said.alias_info is not None and window in mentioned(given):
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Made:
    """Windows, and what they were made of. The tensors are held, so that no other one gets the identity of one of them."""

    sources: tuple[Tensor, ...]
    identities: list[int]
    addresses: list[int]
    dtypes: list[torch.dtype]
    windows: tuple[Tensor, ...]


class Windows:
    """Windows of tensors, made again when one of the tensors is another, lies elsewhere, or is of another type than in the
    last call. Each is said by its source, the position of a tensor or, after those, of an earlier window, and what
    `FAST_VIEW` takes. A tensor that was replaced ends with the next call."""

    def __init__(self, said: Sequence[tuple[int, tuple[Any, ...]]]) -> None:
        self._said = said
        self._made: _Made | None = None

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The windows, in their order."""
        made = self._made
        if (
            made is not None
            and [*map(id, tensors)] == made.identities
            and [*map(_address, tensors)] == made.addresses
            and [*map(_dtype, tensors)] == made.dtypes
        ):
            return made.windows
        return self._make(tensors)

    def _make(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        self._made = None  # what no call needs any more goes before more is made
        held = [*tensors]
        with torch.inference_mode(False):
            for source, args in self._said:
                held.append(FAST_VIEW(held[source], *args))
        windows = tuple(held[len(tensors) :])
        if _PLAIN.issuperset(map(type, tensors)):  # others, as tracers have, need not have an address
            addresses, dtypes = [*map(_address, tensors)], [*map(_dtype, tensors)]
            self._made = _Made(tensors, [*map(id, tensors)], addresses, dtypes, windows)
        return windows
