"""The outputs of a functional graph: the results of `main`, and the binding of each output of the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from inductor_frontend.convert import literal
from inductor_frontend.export.subclasses import output_spec
from inductor_frontend.functionalize.views import replayed, root_of
from wrapper_ir import ir

_COPY = torch.ops.aten.copy_.default
_RESIZE = torch.ops.inductor.resize_storage_bytes_.default


class Outputs:
    """Collects the results of `main`, each node once.

    At the end of the graph, copies write inputs. Outputs that are views of a copied value become views of the
    input that contains it then: as in eager mode, they share memory with it.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._output = graph.output_node()
        copies: list[fx.Node] = [n for n in graph.nodes if n.target is _COPY and _is_placeholder(n.args[0])]
        self._copies: dict[Any, fx.Node] = {n.args[1]: n for n in copies}  # Any: a node is copied
        self._numbers: dict[fx.Node, int] = {}
        self.results: list[fx.Node] = []
        self.written = {name for node in graph.nodes for name in _written_inputs(node)}
        """Names of the inputs that the graph writes."""

    @property
    def roots(self) -> frozenset[int]:
        """Positions of the results that are not views of computed values."""
        return frozenset(i for i, node in enumerate(self.results) if root_of(node) is node)

    def result(self, node: fx.Node) -> int:
        """Returns the position of `node` among the results; adds it if it is missing."""
        settled = replayed(node, self._copies)
        if settled not in self._numbers:
            self._numbers[settled] = len(self.results)
            self.results.append(settled)
        return self._numbers[settled]

    def binding(self, value: object, layout: Any, rest: list[object]) -> ir.OutputBinding:
        """Returns the binding of an output: `value`, or a wrapper of `value` and further values.

        `layout` describes the wrapper, whose further values are removed from the front of `rest`. Any:
        torch's SubclassCreationMeta.
        """
        if layout is None:
            return (
                ir.ResultOutput(index=self.result(value)) if isinstance(value, fx.Node) else _constant(value)
            )
        values = [value, *rest]
        parts = [self._part(inner, values) for inner in layout.attrs.values()]
        spec = output_spec(layout)
        parts += [self._part(None, values) for _ in range(spec.num_parts - len(parts))]
        rest[:] = values
        return ir.WrappedOutput(subclass=spec, parts=tuple(parts))

    def _part(self, layout: Any, values: list[object]) -> ir.OutputBinding:
        first = values.pop(0)
        return self.binding(first, layout if hasattr(layout, "attrs") else None, values)

    def close(self) -> None:
        """Sets the results as the graph's outputs.

        The common base of several results is added, so that torch computes it once and they share memory, as
        in eager mode.
        """
        roots: dict[fx.Node, set[fx.Node]] = {}
        for node in self.results:
            roots.setdefault(root_of(node), set()).add(node)
        for root, views in roots.items():
            is_computed = root.op == "call_function" and root.target is not _COPY
            if len(views) > 1 and is_computed and isinstance(root.meta.get("val"), torch.Tensor):
                self.result(root)
        self._output.args = (tuple(self.results),)
        self._output.meta["user_visible_output_idxs"] = list(range(len(self.results)))


def _written_inputs(node: fx.Node) -> list[str]:
    """Returns the names of the inputs that an operator writes, resizes or reallocates."""
    if not isinstance(node.target, OpOverload):
        return []
    if node.target is _RESIZE:  # its schema declares no write
        operands = [*node.args[:1]]
    else:
        arguments = zip(node.target._schema.arguments, node.args)  # written tensors are passed by position
        operands = [
            a for declared, a in arguments if declared.alias_info is not None and declared.alias_info.is_write
        ]
    return [a.name for a in operands if isinstance(a, fx.Node) and a.op == "placeholder"]


def _is_placeholder(node: object) -> bool:
    return isinstance(node, fx.Node) and node.op == "placeholder"


def _constant(value: object) -> ir.ConstantOutput:
    return ir.ConstantOutput(value=literal(value))


def as_views(
    bindings: Sequence[ir.OutputBinding],
    summary: ir.FunctionSummary,
    inputs: Mapping[int, int],
    roots: frozenset[int],
) -> tuple[ir.OutputBinding, ...]:
    """Returns the bindings, in which results that share memory with an input or another result are views of
    it.

    `inputs` maps results to the input leaf that they share memory with. `roots` are the results that are not
    views.
    """
    groups: dict[object, list[int]] = {}
    for index, origin in enumerate(summary.results):
        own = _own(origin)
        if own is not None:
            groups.setdefault(own, []).append(index)
    bases = {i: next((r for r in roots if r in group), group[0]) for group in groups.values() for i in group}
    return tuple(_viewed(b, inputs, {i: b for i, b in bases.items() if i != b}) for b in bindings)


def _own(origin: ir.ResultOrigin | None) -> object | None:
    """Returns the storage that a result certainly has, unless it is a parameter's."""
    if origin is None or not origin.certain:
        return None
    return (*origin.own, *origin.constants, None)[0]


def _viewed(
    binding: ir.OutputBinding, inputs: Mapping[int, int], bases: Mapping[int, int]
) -> ir.OutputBinding:
    match binding:
        case ir.WrappedOutput(parts=parts):
            return dataclasses.replace(binding, parts=tuple(_viewed(p, inputs, bases) for p in parts))
        case ir.ResultOutput(index=index) if index in inputs:
            return ir.InputView(index=index, leaf=inputs[index])
        case ir.ResultOutput(index=index) if index in bases:
            return ir.ResultView(index=index, base=bases[index])
        case _:
            return binding
