"""Protocol and look-up of compilers that receive converted graphs.

A package registers a compiler in the entry-point group `wrapper_ir.fx_compilers`, under the type of its
device (`cpu`, `cuda`, `npu`). Programs for that device that are compiled with the emitter `fx` are then
passed to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast, runtime_checkable

from torch import fx

from fx_converter.graph.scope import FunctionScope
from wrapper_ir import ir
from wrapper_ir.plugins.registry import plugin, plugin_names

GROUP = "fx_compilers"
Lowering = Callable[[Any, FunctionScope], bool]  # Any: each lowering takes its own op class
"""Converts one op: creates its nodes in the scope and returns True, or returns False to decline."""


@runtime_checkable
class GraphCompiler(Protocol):
    """Compiler of converted graphs."""

    @property
    def name(self) -> str:
        """Name in messages."""

    @property
    def lowerings(self) -> Mapping[type[ir.OpBase], Lowering]:
        """Lowerings of ops that the compiler converts itself, by class; may be empty."""

    def compile_graph(self, module: fx.GraphModule) -> Callable[..., tuple[object, ...]]:
        """Returns a callable over the graph's inputs, which returns its outputs in a tuple. `module` takes
        and returns flat values (tensors and numbers). The compiler may change it."""


def refuse(op: ir.OpBase, scope: FunctionScope) -> bool:
    """Lowering of ops that `FxOptions.forbid` names. Raises ConvertError FX106."""
    raise scope.forbidden(op)


def find_compiler(device: str, compilers: Mapping[str, GraphCompiler] | None) -> GraphCompiler | None:
    """Returns the compiler for a type of device from `chosen`, or the installed one if that is None; None if
    none exists. Raises PluginError WIR902 if two packages claim the device, WIR903 if the package fails to
    load."""
    if compilers is not None:
        return compilers.get(device)
    if device not in plugin_names(GROUP):
        return None
    return cast("GraphCompiler", plugin(GROUP, device))  # entry points are untyped
