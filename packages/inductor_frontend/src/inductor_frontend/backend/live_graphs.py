"""Descriptions of the functions and graphs that this process has compiled, while their code is alive.

There is no registry. Each description is referenced by its callable, and `live_graphs` finds them through
Python's garbage collector. They are therefore freed with the code, and cost nothing until queried.
"""

from __future__ import annotations

import gc
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from torch._guards import CompileContext
from torch.fx import GraphModule

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import CompiledProgram, Emitter


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionInfo:
    """A function that torch.compile passed to the backend.

    `compile_id`: torch's, such as `0/0`: the number of the function, and the number of its earlier
    compilations; "" outside of torch.compile. `backend_id`: the name by which Dynamo's bytecode calls the
    function. `compressed`:
    `graph`, compressed by zlib. `from_cache`: whether the whole function was loaded from the cache.
    `observers`: called with each of its graphs when that is compiled.
    """

    compile_id: str = ""
    backend_id: str = ""
    compressed: bytes = b""
    from_cache: bool = False
    observers: tuple[Callable[[GraphInfo], object], ...] = ()

    @property
    def graph(self) -> str:
        """The text of Dynamo's graph."""
        return zlib.decompress(self.compressed).decode() if self.compressed else ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphInfo:
    """One compiled graph.

    `kind`: `forward`, `backward` or `inference`. `guarded`: facts that the code does not check, since the
    caller does.
    `from_cache`: whether its program was loaded from the cache. `made`: the monotonic time of its
    compilation, in nanoseconds.
    """

    function: FunctionInfo
    kind: str
    artifact: Artifact
    emitter: Emitter[object]
    program: CompiledProgram
    guarded: ir.Guarded
    from_cache: bool
    created: int = field(default_factory=time.monotonic_ns)


def describe_function(
    gm: GraphModule, observers: tuple[Callable[[GraphInfo], object], ...] = ()
) -> FunctionInfo:
    """Describes a function that is about to be compiled or looked up, in the current compile context."""
    context = CompileContext.try_get()
    number = None if context is None else context.compile_id
    return FunctionInfo(
        compile_id="" if number is None else str(number),
        backend_id=str(gm.meta.get("backend_id", "")),
        compressed=zlib.compress(graph_text(gm).encode("utf-8", "surrogatepass"), 1),
        observers=observers,
    )


def graph_text(gm: GraphModule) -> str:
    """Prints a graph as Python, with the source line of each node in comments; a comment if torch cannot
    print it."""
    try:
        text: str = gm.print_readable(print_output=False)
    except Exception as error:  # nodes carry any metadata; printing must not fail a compilation
        return f"# torch cannot print this graph: {error!r}\n"
    return text


def live_graphs() -> list[GraphInfo]:
    """Returns the descriptions of all graphs whose code is alive, in the order of their compilation."""
    infos = [o for o in gc.get_objects() if type(o) is GraphInfo]
    return sorted(infos, key=lambda info: info.created)
