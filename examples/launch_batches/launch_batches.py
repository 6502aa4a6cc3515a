"""An out-of-tree compiler: kernels that follow each other are submitted together.

Devices with a command queue want many kernels in one submission. The graph says all that this takes: which nodes launch
kernels, what they read and write, and where buffers come and go. Allocations between two launches move in front of the
first, ends of storages behind the last, and the launches in between become one node.
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
    """How many arguments each takes."""

    @property
    def __name__(self) -> str:
        return f"submit_{len(self.kernels)}"

    def __call__(self, *args: Any) -> None:  # Any: tensors and numbers
        """Runs all of them."""
        start = 0
        for kernel, count in zip(self.kernels, self.counts, strict=True):
            kernel(*args[start : start + count])
            start += count


def batch_launches(graph: fx.Graph) -> int:
    """Makes one node of launches that follow each other; returns how many there are now."""
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
    """Allocations can go in front of the launches, ends behind them."""
    name = getattr(node.target, "__name__", "")
    if name == "free":
        return True
    if not name.startswith("_empty_strided") or any(used in run for used in node.all_input_nodes):
        return False
    run[0].prepend(node)
    return True


def _submit(graph: fx.Graph, run: Sequence[fx.Node]) -> int:
    if len(run) > 1:
        target = Submission(tuple(n.target for n in run), tuple(len(n.args) for n in run))  # type: ignore[misc]  # launches call functions
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
def _left_out(op: Any, scope: object) -> bool:
    """The device checks and comments nothing."""
    return True


@dataclass(frozen=True, slots=True)
class LaunchBatches:
    """See `fx_converter.GraphCompiler`."""

    name: str = "launch-batches"
    lowerings: Mapping[type[ir.OpBase], Callable[[Any, Any], bool]] = field(
        default_factory=lambda: MappingProxyType({ir.AssertFinite: _left_out, ir.Comment: _left_out})
    )

    def compile_graph(self, module: fx.GraphModule) -> Callable[..., tuple[Any, ...]]:
        """The graph with its launches together, as straight-line Python."""
        batch_launches(module.graph)
        module.graph.lint()
        module.recompile()
        run = boxed_call(module)
        return lambda *args: run(list(args))


COMPILER = LaunchBatches()
"""The entry point."""
