"""Other compilers behind the graph: what they are asked, and how they are found.

A package registers one in the entry-point group `wrapper_ir.fx_compilers`, under the type of the device that it compiles for
(`cpu`, `cuda`, `npu`). Whatever is compiled with the emitter `fx` for that device then goes through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast, runtime_checkable

from torch import fx

from fx_converter.graph.scope import FunctionScope
from wrapper_ir import ir
from wrapper_ir.plugins.registry import plugin, plugin_names

GROUP = "fx_compilers"
# Any: each lowering takes its own op class
Lowering = Callable[[Any, FunctionScope], bool]
"""Converts one op: makes its nodes in the scope and returns True, or returns False to leave it as it would be."""


@runtime_checkable
class GraphCompiler(Protocol):
    """Takes finished graphs."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def lowerings(self) -> Mapping[type[ir.OpBase], Lowering]:
        """Ops that it converts itself, by class; may be empty."""

    # Any: flat arguments and results: tensors and numbers
    def compile_graph(self, module: fx.GraphModule) -> Callable[..., tuple[Any, ...]]:
        """A callable over the graph's inputs, which returns its outputs in a tuple. `module` takes and returns flat values,
        and is the compiler's to change."""


def refuse(op: ir.OpBase, scope: FunctionScope) -> bool:
    """The lowering of ops that a graph must not have. Raises ConvertError FX106."""
    raise scope.forbidden(op)


def find_compiler(device: str, chosen: Mapping[str, GraphCompiler] | None) -> GraphCompiler | None:
    """The compiler for a type of device: of `chosen`, or where that is None, the one that is installed; None for none.
    Raises PluginError WIR902 where two packages claim the device, WIR903 where theirs does not load."""
    if chosen is not None:
        return chosen.get(device)
    if device not in plugin_names(GROUP):
        return None
    return cast("GraphCompiler", plugin(GROUP, device))  # entry points are untyped
