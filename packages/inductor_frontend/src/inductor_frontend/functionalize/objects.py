"""Tensor objects of an exported graph: nodes that are the same Python tensor, and the mutations of each
tensor.

torch.export keeps in-place operators. `mul_` and others return the tensor that they write, which matters for
identity (`f(x) is x`). `transpose_` and others change the metadata of the caller's tensor. They are rewritten
here to ordinary views, and the final metadata becomes an output that the signature writes back: torch's
functionalization refuses some of these operators, and loses the storage offset of others.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

import torch
from torch import fx
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._guards import detect_fake_mode
from torch._ops import OpOverload

from inductor_frontend.errors import CaptureError
from inductor_frontend.export.fresh_fakes import fresh_returns
from inductor_frontend.export.subclasses import plain_tensors

_ATEN = torch.ops.aten

# Operators that change the view of a tensor in place -> operators that return such a view.
_VIEWS: dict[OpOverload, OpOverload] = {
    _ATEN.as_strided_.default: _ATEN.as_strided.default,
    _ATEN.detach_.default: _ATEN.detach.default,
    _ATEN.squeeze_.default: _ATEN.squeeze.default,
    _ATEN.squeeze_.dim: _ATEN.squeeze.dim,
    _ATEN.squeeze_.dims: _ATEN.squeeze.dims,
    _ATEN.swapaxes_.default: _ATEN.swapaxes.default,
    _ATEN.swapdims_.default: _ATEN.swapdims.default,
    _ATEN.t_.default: _ATEN.t.default,
    _ATEN.transpose_.default: _ATEN.transpose.int,
    _ATEN.unsqueeze_.default: _ATEN.unsqueeze.default,
}
_HINT = "change a view of the tensor instead (x.transpose(...)), or return the new tensor"


class Objects:
    """The tensor objects of one graph. The constructor rewrites its in-place operators.

    Raises CaptureError FE105 for changes of a tensor's storage that cannot be expressed.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._first: dict[fx.Node, fx.Node] = {}
        self._last: dict[fx.Node, fx.Node] = {}
        self._written: set[fx.Node] = set()
        self._moved: set[fx.Node] = set()
        self._moves: set[fx.Node] = set()
        self._replaced: set[fx.Node] = set()
        self._settled: dict[fx.Node, fx.Node | None] = {}
        for node in list(graph.nodes):
            self._visit(node)

    # --- queries

    def root(self, node: fx.Node) -> fx.Node:
        """Returns the base of `node`, through all views."""
        node = self.first(node)
        while _is_view(node):
            inputs = node.all_input_nodes
            if node.target is operator.getitem:
                inputs = inputs[0].all_input_nodes
            node = self.first(next(n for n in inputs if not _storages(n).isdisjoint(_storages(node))))
        return node

    def first(self, node: fx.Node) -> fx.Node:
        """Returns the node that created the tensor of `node`."""
        return self._first.get(node, node)

    def last(self, first: fx.Node) -> fx.Node:
        """Returns the last node of the tensor that `first` created."""
        return self._last.get(first, first)

    def is_moved(self, first: fx.Node) -> bool:
        """Returns whether the sizes, strides or offset of the tensor may be different at the end."""
        return first in self._moved

    def is_replaced(self, first: fx.Node) -> bool:
        """Returns whether the storage of the tensor is replaced."""
        return first in self._replaced

    def settled(self, node: fx.Node, before: fx.Node) -> fx.Node:
        """Returns `node`; if it was written through its own view, a copy of that view inserted before
        `before`.

        Functionalization would return the written value, which is not a view.
        """
        first = self.first(node)
        if first not in self._settled:
            self._settled[first] = self._settle(first, before)
        settled = self._settled[first]
        return node if settled is None else settled

    def _settle(self, first: fx.Node, before: fx.Node) -> fx.Node | None:
        steps = self._steps(first)
        is_view = _is_view(first)
        if first not in self._written or not (steps or is_view):
            return None
        with self._graph.inserting_before(before):
            current = self._again(first) if is_view else first
            for step in steps:
                keep = step.target is _ATEN.alias.default  # `set_` replaced the storage
                current = self._graph.node_copy(step, _same if keep else _replacing(step.args[0], current))
        return current

    def _again(self, view: fx.Node) -> fx.Node:
        if view.target is operator.getitem:
            call, index = view.args
            assert isinstance(call, fx.Node)
            call = self._graph.node_copy(call)  # before its getitem
            item = self._graph.node_copy(view)
            item.args = (call, index)
            return item
        return self._graph.node_copy(view)

    def _steps(self, first: fx.Node) -> list[fx.Node]:
        """Returns the operators that changed the metadata of the tensor after its creation, in order."""
        nodes = (n for n, f in self._first.items() if f is first)
        return [n for n in nodes if n in self._moves]

    # --- construction

    def _visit(self, node: fx.Node) -> None:
        if node.op != "call_function":
            return
        if node.target is _ATEN._has_compatible_shallow_copy_type.default:
            # The only trace of the assignment: a check that it starts with.
            raise CaptureError("FE105", "an assignment `x.data = ...` is lost by torch.export", hint=_HINT)
        changed = self._changed_in_place(node)
        source = _handed_through(node) if changed is None else changed
        if source is None:
            return
        first = self.first(source)
        self._first[node] = first
        self._last[first] = node
        if changed is None:
            return
        assert isinstance(node.target, OpOverload)
        if torch.Tag.inplace_view in node.target.tags:
            self._moves.add(node)
            if node.target is not _ATEN.detach_.default:
                self._moved.add(first)
            self._rewrite(node, node.target, first)
        else:
            self._written.add(first)

    def _changed_in_place(self, node: fx.Node) -> fx.Node | None:
        """Returns the argument that an operator writes and returns as the same tensor object."""
        if node.target is operator.getitem:
            call, index = node.args
            if not isinstance(call, fx.Node) or not isinstance(index, int):
                return None
            return _returned_argument(call, index)
        if isinstance(node.target, OpOverload) and len(node.target._schema.returns) == 1:
            return _returned_argument(node, 0)
        return None

    def _rewrite(self, node: fx.Node, overload: OpOverload, first: fx.Node) -> None:
        view = _VIEWS.get(overload)
        if view is not None:
            node.target = view
        elif node.target is _ATEN.resize_.default:
            self._rewrite_resize(node)
        elif node.target is _ATEN.set_.source_Tensor:
            self._replaced.add(first)
            node.target, node.args = _ATEN.alias.default, (node.args[1],)
        else:
            raise CaptureError(
                "FE105", f"{node.target} at node {node.name} changes the storage of a tensor", hint=_HINT
            )

    def _rewrite_resize(self, node: fx.Node) -> None:
        """Rewrites `resize_` to a view: a smaller tensor fits the current extent, a larger one needs new
        memory."""
        source, sizes = node.args[0], node.args[1]
        assert isinstance(source, fx.Node)
        assert isinstance(sizes, Sequence)
        value = source.meta["val"]
        shape = [int(n) for n in sizes if isinstance(n, int)]
        static = all(isinstance(n, int) for n in (*value.size(), *value.stride()))
        if len(shape) != len(sizes) or not static:
            raise CaptureError(
                "FE105", f"resize_ at node {node.name} has sizes that are not constant", hint=_HINT
            )
        reach = 1 + sum((n - 1) * s for n, s in zip(value.size(), value.stride())) if value.numel() else 0
        if math.prod(shape) > reach:
            raise CaptureError("FE105", f"resize_ at node {node.name} needs more memory", hint=_HINT)
        strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        node.target, node.args = _ATEN.as_strided.default, (source, shape, strides)


def _same(node: fx.Node) -> fx.Node:
    return node


def _replacing(old: object, new: fx.Node) -> Callable[[fx.Node], fx.Node]:
    return lambda node: new if node is old else node


def _is_view(node: fx.Node) -> bool:
    """Returns whether a node created its tensor on the storage of an argument.

    Only the trace can tell: operators such as `reshape` do so for some layouts only.
    """
    if node.op != "call_function" or node.target is _ATEN.lift_fresh_copy.default:
        return False  # the fake tensor of a literal's copy is that of the literal
    call = node.args[0] if node.target is operator.getitem else node
    if isinstance(call, fx.Node) and _is_fresh(call, node):
        return False  # the fake tensor of a program exported outside of this capture may share memory
    inputs = call.all_input_nodes if isinstance(call, fx.Node) else []
    return not _storages(node).isdisjoint(set().union(*map(_storages, inputs)))


def _is_fresh(call: fx.Node, node: fx.Node) -> bool:
    """Returns whether a custom operator, called at `call`, declares the result at `node` as a new tensor."""
    returns = fresh_returns(call.target)
    several = isinstance(call.target, OpOverload) and len(call.target._schema.returns) > 1
    return (node.args[1] if node is not call and several else 0) in returns


def _storages(node: fx.Node) -> set[int]:
    """Returns the storages of the tensor of a node.

    A tensor of another layout, such as a sparse one, has none. A batched tensor that a trace left behind
    shows none.
    """
    value = node.meta.get("val")
    tensors = plain_tensors(value) if isinstance(value, torch.Tensor) else []
    return {
        x.untyped_storage()._cdata
        for x in tensors
        if x.layout == torch.strided and not is_functorch_wrapped_tensor(x)
    }


def _handed_through(node: fx.Node) -> fx.Node | None:
    """Returns the argument that an operator returns unchanged, such as `x.contiguous()` of a contiguous
    tensor.

    Calls the operator again with the fake tensors of the trace.
    """
    if not isinstance(node.target, OpOverload) or not isinstance(node.meta.get("val"), torch.Tensor):
        return None
    candidates = {id(n.meta["val"]): n for n in node.all_input_nodes if _look_alike(n, node)}
    fake_mode = detect_fake_mode([node.meta["val"]])
    if not candidates or fake_mode is None or fake_mode.shape_env is None:
        return None
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    with fake_mode, fake_mode.shape_env.suppress_guards(), torch.no_grad():
        return candidates.get(id(node.target(*args, **kwargs)))


def _look_alike(a: fx.Node, b: fx.Node) -> bool:
    """Returns whether two tensors have the same storage, dtype and layout."""
    x, y = a.meta.get("val"), b.meta["val"]
    if not isinstance(x, torch.Tensor) or x.dtype != y.dtype or _storages(a) != _storages(b):
        return False
    if not x.layout == y.layout == torch.strided:
        return False
    return all(str(getattr(x, f)()) == str(getattr(y, f)()) for f in ("size", "stride", "storage_offset"))


def _returned_argument(call: fx.Node, index: int) -> fx.Node | None:
    """Returns the argument of `call` that the schema declares to be written and returned at `index`."""
    if not isinstance(call.target, OpOverload):
        return None
    schema = call.target._schema
    if index >= len(schema.returns):
        return None
    mark = schema.returns[index].alias_info
    if mark is None or not mark.is_write:
        return None
    for position, argument in enumerate(schema.arguments):
        info = argument.alias_info
        if info is not None and info.is_write and info.before_set == mark.before_set:
            operand = call.args[position] if position < len(call.args) else call.kwargs.get(argument.name)
            return operand if isinstance(operand, fx.Node) else None
    return None
