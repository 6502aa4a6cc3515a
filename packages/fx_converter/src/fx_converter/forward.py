"""The `forward` of graph modules with direct calls, as straight-line Python.

Torch's own text looks up every attribute in the module and every operator in `torch.ops`, line by line. This
text reads all attributes once per call, so that it uses replaced ones, and refers to its call targets by
name.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import Any

import torch
from torch import fx
from torch.fx.graph import CodeGen, PythonCode

from fx_converter._compat import FORWARD_NAMES, unrecorded
from fx_converter.convention import ModelCodeGen
from fx_converter.failures import Function
from fx_converter.kernels import KernelCalls, LoadedTarget
from fx_converter.nodes import Argument
from fx_converter.state import buffers_of
from fx_converter.straight_line import Line, StraightLine, indented
from fx_converter.windows import Windows, constant_windows
from wrapper_ir import ir
from wrapper_ir_runtime import keep_from_dynamo
from wrapper_ir_torch.graph_modules import nested_nodes


def codegen(kernel_calls: KernelCalls, signature: ir.Signature | None) -> CodeGen:
    """Returns the code generator of a main graph: over flat values, or with the model's calling
    convention.
    """
    if signature is None:
        return DirectFlatCodeGen() if kernel_calls == "direct" else FlatCodeGen()
    return (DirectModelCodeGen if kernel_calls == "direct" else ModelCodeGen)(signature)


def callee_codegen(kernel_calls: KernelCalls) -> CodeGen:
    """Returns the code generator of a graph that another one calls."""
    return DirectCodeGen() if kernel_calls == "direct" else CodeGen()


class FlatCodeGen(CodeGen):
    """Writes `forward(*inputs)` over the flat values of a whole program, without autograd."""

    def gen_fn_def(self, *args: Any, **kwargs: Any) -> str:  # Any: torch's own arguments
        """See `CodeGen`."""
        return f"@_unrecorded\n{super().gen_fn_def(*args, **kwargs)}"

    def additional_globals(self) -> list[tuple[str, object]]:
        """See `CodeGen`."""
        return [("_unrecorded", unrecorded)]


class DirectCodeGen(CodeGen):
    """Writes `forward(*inputs)` over the graph's flat values."""

    # Any: torch's own arguments
    def _gen_python_code(self, nodes: Any, root_module: str, namespace: Any, **features: Any) -> PythonCode:
        """See `CodeGen`. If torch requests more than a callable function (annotations, profiling, text that a
        transformer changes), torch writes the text."""
        writer = _Forward(self, list(nodes))
        if (
            root_module == "self"
            and not any(features.values())
            and not self._body_transformer
            and writer.is_plain()
        ):
            return writer.python_code()
        return super()._gen_python_code(nodes, root_module, namespace, **features)

    def returned(self, outputs: str) -> str:
        """Returns the line that returns the graph's outputs."""
        return f"return {outputs}"


class DirectFlatCodeGen(FlatCodeGen, DirectCodeGen):
    """Writes `forward(*inputs)` of a whole program."""


class DirectModelCodeGen(ModelCodeGen, DirectCodeGen):
    """Writes `forward` of a whole program, called like the model."""


def _kept_from_dynamo(function: Function) -> Function:
    keep_from_dynamo(torch, function)
    return function


class _Forward(StraightLine):
    def __init__(self, gen: DirectCodeGen, nodes: list[fx.Node]) -> None:
        super().__init__(nodes, FORWARD_NAMES)
        self._gen = gen
        self._attributes: dict[str, str] = {}
        """The variable of each attribute, by path."""
        self._windows = constant_windows(nodes)

    def is_plain(self) -> bool:
        """Returns whether no name is reserved, no input has a default or another external name, and no node
        is for torch's tracers only."""
        return not any(
            node.name in FORWARD_NAMES
            or (node.op == "placeholder" and (node.target != node.name or node.args))
            or node.meta.get("is_wrapped")
            for node in self.nodes
        )

    def value(self, node: fx.Node) -> str:
        """See `StraightLine`."""
        if node.op == "get_attr":  # here a variable, which `_fetch` assigns
            return self._attributes.setdefault(str(node.target), node.name)
        return super().value(node)

    def attribute(self, path: str) -> str:
        """See `StraightLine`."""
        if path not in self._attributes:
            self._attributes[path] = self.name(path)
        return self._attributes[path]

    def is_ready(self, node: fx.Node) -> bool:
        """See `StraightLine`."""
        return node in self._windows or super().is_ready(node)

    def is_traceable(self) -> bool:
        """See `StraightLine`; includes the functions that this one calls."""
        nodes = nested_nodes(self._module())
        return super().is_traceable() and not any(isinstance(node.target, LoadedTarget) for node in nodes)

    def _module(self) -> fx.GraphModule | None:
        return next((node.graph.owning_module for node in self.nodes), None)

    def returns(self, result: Argument) -> str:
        """See `StraightLine`."""
        return self._gen.returned(self.repr(result))

    def python_code(self) -> PythonCode:
        """Returns the text of the function, with its global names."""
        body = self.body()
        windows = self._take_windows()
        inputs = [node.name for node in self.nodes if node.op == "placeholder"]
        head = self._gen.gen_fn_def(inputs, "").split("\n")
        if not self.is_traceable():
            head.insert(
                next(n for n, line in enumerate(head) if line.startswith("def ")), "@_kept_from_dynamo"
            )
            self.scope["_kept_from_dynamo"] = _kept_from_dynamo
        alone = [] if inputs or self.is_traceable() else [(self.refuse_tracers(), None)]
        lines = self.guarded([*alone, *self._fetch(), *windows, *body]) or [("pass", None)]
        numbers = {len(head) + at: number for at, (_, number) in enumerate(lines)}
        text = "\n".join([*head, *(line for line, _ in indented(lines))])
        names = {**self.scope, **dict(self._gen.additional_globals())}
        return PythonCode(f"\n\n\n{text}\n", names, _lineno_map=numbers, _prologue_start=4)

    def _fetch(self) -> list[Line]:
        """Writes the lines that read the attributes, as the module would return them."""
        module = self._module()
        owners: dict[str, list[str]] = {}
        for path in self._attributes:
            owners.setdefault("" if module is None else buffers_of(module, path), []).append(path)
        others = owners.pop("", [])
        lines = []
        if owners:
            buffers = [path for paths in owners.values() for path in paths]
            lines += ["try:"]
            for owner, paths in owners.items():
                names = [path.rpartition(".")[2] for path in paths]
                lines += [f"    {self._take(itemgetter(*names), paths)}({owner})"]
            lines += ["except KeyError:", f"    {self._take(attrgetter(*buffers), buffers)}(self)"]
        if others:
            lines.append(f"{self._take(attrgetter(*others), others)}(self)")
        return [(line, None) for line in lines]

    def _take_windows(self) -> list[Line]:
        """Writes the lines that take the windows of attributes."""
        if not self._windows:
            return []
        sources = dict.fromkeys(node for node in self._windows.values() if node.op == "get_attr")
        place = {node: at for at, node in enumerate([*sources, *self._windows])}
        layouts = [(place[source], node.args[1:]) for node, source in self._windows.items()]
        windows = self.object(Windows(layouts), "windows")
        names = ", ".join(node.name for node in self._windows)
        return [(f"{names}, = {windows}({', '.join(map(self.value, sources))})", None)]

    def _take(self, getter: object, paths: list[str]) -> str:
        """Returns the start of a line that assigns these attributes. Getters return a single one directly."""
        targets = ", ".join(self._attributes[path] for path in paths)
        return f"{targets} = {self.object(getter, 'attributes')}"
