"""An out-of-tree compiler that submits consecutive kernels together.

Devices with a command queue are fastest with many kernels in one submission. The graph has all necessary
information: the nodes that launch kernels, their reads and writes, and the lifetimes of buffers. Allocations
between two launches move before the first, ends of storages after the last, and the launches become one node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from torch import fx

from fx_converter import boxed_call
from wrapper_ir import ir


@dataclass(frozen=True, eq=False)
class Submission:
    """Several kernels in order. A real device would record their commands here, and submit them in a call."""

    kernels: tuple[Callable[..., None], ...]
    counts: tuple[int, ...]
    """The number of arguments of each."""

    @property
    def __name__(self) -> str:
        return f"submit_{len(self.kernels)}"

    def __call__(self, *args: Any) -> None:  # Any: tensors and numbers
        """Runs all kernels."""
        start = 0
        for kernel, count in zip(self.kernels, self.counts, strict=True):
            kernel(*args[start : start + count])
            start += count


def batch_launches(graph: fx.Graph) -> int:
    """Merges consecutive launches into one node; returns the number of launch nodes."""
    run: list[fx.Node] = []
    made = 0
    for node in list(graph.nodes):
        if "kernel" in node.meta:
            run.append(node)
        elif run and _may_move(node, run):
            continue
        elif run:
            made += _submit(graph, run)
            run = []
    return made


def _may_move(node: fx.Node, run: Sequence[fx.Node]) -> bool:
    """Returns whether a node can leave the run: moves allocations before it; ends may stay after it."""
    name = getattr(node.target, "__name__", "")
    if name == "free":
        return True
    if not name.startswith("_empty_strided") or any(used in run for used in node.all_input_nodes):
        return False
    run[0].prepend(node)
    return True


def _submit(graph: fx.Graph, run: Sequence[fx.Node]) -> int:
    if len(run) > 1:
        # launches call functions
        target = Submission(tuple(n.target for n in run), tuple(len(n.args) for n in run))  # type: ignore[misc]
        with graph.inserting_after(run[-1]):
            node = graph.call_function(target, tuple(arg for n in run for arg in n.args))
        node.meta["val"] = None
        for end in [n for n in graph.nodes if getattr(n.target, "__name__", "") == "free"]:
            if run[0] < end < node:
                node.append(end)
        for old in run:
            graph.erase_node(old)
    return 1


# Any: each lowering takes its own op class
def _omit(op: Any, scope: object) -> bool:
    """Omits the op: the device has neither checks nor comments."""
    return True


@dataclass(frozen=True, slots=True)
class LaunchBatches:
    """See `fx_converter.GraphCompiler`."""

    name: str = "launch-batches"
    lowerings: Mapping[type[ir.OpBase], Callable[[Any, Any], bool]] = field(
        default_factory=lambda: MappingProxyType({ir.AssertFinite: _omit, ir.Comment: _omit})
    )

    def compile_graph(self, module: fx.GraphModule) -> Callable[..., tuple[Any, ...]]:
        """Compiles the graph with merged launches to straight-line Python."""
        batch_launches(module.graph)
        module.graph.lint()
        module.recompile()
        run = boxed_call(module)
        return lambda *args: run(list(args))


COMPILER = LaunchBatches()
"""The entry point."""
