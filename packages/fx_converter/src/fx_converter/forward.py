"""The `forward` of graph modules whose calls are direct, as straight-line Python.

Torch writes one that looks every attribute up in the module and every operator in `torch.ops`, line by line. This one takes
all attributes at once when it is called, so that what was replaced in the module is seen, and knows what it calls.
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
from fx_converter.state import buffers_of
from fx_converter.straight_line import Line, StraightLine, indented
from fx_converter.windows import Windows, constant_windows
from wrapper_ir import ir
from wrapper_ir_runtime import keep_from_dynamo


def codegen(kernel_calls: KernelCalls, signature: ir.Signature | None) -> CodeGen:
    """What writes the `forward` of a main graph: over flat values, or called like the model of a signature."""
    if signature is None:
        return DirectFlatCodeGen() if kernel_calls == "direct" else FlatCodeGen()
    return (DirectModelCodeGen if kernel_calls == "direct" else ModelCodeGen)(signature)


def callee_codegen(kernel_calls: KernelCalls) -> CodeGen:
    """What writes the `forward` of a graph that another one calls."""
    return DirectCodeGen() if kernel_calls == "direct" else CodeGen()


class FlatCodeGen(CodeGen):
    """Writes `forward(*inputs)` over the flat values of a whole program: nothing is recorded for autograd."""

    def gen_fn_def(self, *args: Any, **kwargs: Any) -> str:  # Any: what torch asks of the text
        """See `CodeGen`."""
        return f"@_unrecorded\n{super().gen_fn_def(*args, **kwargs)}"

    def additional_globals(self) -> list[tuple[str, Any]]:
        """See `CodeGen`."""
        return [("_unrecorded", unrecorded)]


class DirectCodeGen(CodeGen):
    """Writes `forward(*inputs)` over the graph's flat values."""

    # Any: what torch asks of the text, and nodes
    def _gen_python_code(self, nodes: Any, root_module: str, namespace: Any, **asked: Any) -> PythonCode:
        """See `CodeGen`. Where more is asked for than a function to call (annotations, profiling, text that another
        function changes), the text is torch's."""
        writer = _Forward(self, list(nodes))
        if (
            root_module == "self"
            and not any(asked.values())
            and not self._body_transformer
            and writer.is_plain()
        ):
            return writer.python_code()
        return super()._gen_python_code(nodes, root_module, namespace, **asked)

    def returned(self, outputs: str) -> str:
        """The line that returns the graph's outputs."""
        return f"return {outputs}"


class DirectFlatCodeGen(FlatCodeGen, DirectCodeGen):
    """The same, for a whole program."""


class DirectModelCodeGen(ModelCodeGen, DirectCodeGen):
    """The same, called like the model."""


def _kept_from_dynamo(function: Function) -> Function:
    keep_from_dynamo(torch, function)
    return function


class _Forward(StraightLine):
    def __init__(self, gen: DirectCodeGen, nodes: list[fx.Node]) -> None:
        super().__init__(nodes, FORWARD_NAMES)
        self._gen = gen
        self._attributes: dict[str, str] = {}
        """The variable of each attribute."""
        self._windows = constant_windows(nodes)

    def is_plain(self) -> bool:
        """Whether the text has room for all names, no input has a default or another name outside, and nothing is for torch's
        tracers only."""
        return not any(
            node.name in FORWARD_NAMES
            or (node.op == "placeholder" and (node.target != node.name or node.args))
            or node.meta.get("is_wrapped")
            for node in self.nodes
        )

    def value(self, node: fx.Node) -> str:
        """See `StraightLine`."""
        if node.op == "get_attr":  # a variable like others here, taken before them
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
        """See `StraightLine`; for the functions that this one calls as well."""
        module = self._module()
        graphs = (
            [] if module is None else [m.graph for m in module.modules() if isinstance(m, fx.GraphModule)]
        )
        return super().is_traceable() and not any(
            isinstance(node.target, LoadedTarget) for graph in graphs for node in graph.nodes
        )

    def _module(self) -> fx.GraphModule | None:
        return next((node.graph.owning_module for node in self.nodes), None)

    def returns(self, result: Any) -> str:
        """See `StraightLine`."""
        return self._gen.returned(self.repr(result))

    def python_code(self) -> PythonCode:
        """The whole function."""
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
        named = {**self.scope, **dict(self._gen.additional_globals())}
        return PythonCode(f"\n\n\n{text}\n", named, _lineno_map=numbers, _prologue_start=4)

    def _fetch(self) -> list[Line]:
        """Takes the attributes, each as the module would give it."""
        module = self._module()
        owners: dict[str, list[str]] = {}
        for path in self._attributes:
            owners.setdefault("" if module is None else buffers_of(module, path), []).append(path)
        others = owners.pop("", [])
        lines = []
        if owners:
            held = [path for paths in owners.values() for path in paths]
            lines += ["try:"]
            for owner, paths in owners.items():
                names = [path.rpartition(".")[2] for path in paths]
                lines += [f"    {self._take(itemgetter(*names), paths)}({owner})"]
            lines += [
                "except KeyError:",
                f"    {self._take(attrgetter(*held), held)}(self)",
            ]
        if others:
            lines.append(f"{self._take(attrgetter(*others), others)}(self)")
        return [(line, None) for line in lines]

    def _take_windows(self) -> list[Line]:
        """Takes the windows of attributes."""
        if not self._windows:
            return []
        sources = dict.fromkeys(node for node in self._windows.values() if node.op == "get_attr")
        place = {node: at for at, node in enumerate([*sources, *self._windows])}
        said = [(place[source], node.args[1:]) for node, source in self._windows.items()]
        windows = self.object(Windows(said), "windows")
        names = ", ".join(node.name for node in self._windows)
        return [(f"{names}, = {windows}({', '.join(map(self.value, sources))})", None)]

    def _take(self, getter: object, paths: list[str]) -> str:
        """The begin of a line that takes these attributes; of a single one, getters give the object itself."""
        targets = ", ".join(self._attributes[path] for path in paths)
        return f"{targets} = {self.object(getter, 'attributes')}"
