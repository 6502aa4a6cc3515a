"""What this process has compiled: a description of each function and graph, for as long as its code is alive.

Nothing registers them: each is held by the callable that it is about, and `live_graphs` asks Python's garbage collector for those
that there are. So they go when the code goes, and cost nothing until somebody asks.
"""

from __future__ import annotations

import gc
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch._guards import CompileContext
from torch.fx import GraphModule

from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.plugins.protocols import CompiledProgram, Emitter


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionInfo:
    """What torch.compile gave to the backend. `compile_id` is torch's, such as `0/0`: the number of the function, and how often it was
    compiled before; "" outside of torch.compile. `backend_id` is the name by which Dynamo's bytecode calls it. `from_cache`: its graphs
    came out of the cache together. `observers` are told of each graph of it that is compiled."""

    compile_id: str = ""
    backend_id: str = ""
    compressed: bytes = b""
    from_cache: bool = False
    observers: tuple[Callable[[GraphInfo], object], ...] = ()

    @property
    def graph(self) -> str:
        """Dynamo's graph as text."""
        return zlib.decompress(self.compressed).decode() if self.compressed else ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphInfo:
    """One compiled graph: `kind` is `forward`, `backward` or `inference`; `guarded` is what its code does not check, since the
    caller does; `from_cache` says whether its program was found in the cache. `made` is when, in nanoseconds of this process."""

    function: FunctionInfo
    kind: str
    artifact: Artifact
    emitter: Emitter[Any]  # Any: each emitter has its own result type
    program: CompiledProgram
    guarded: ir.Guarded
    from_cache: bool
    made: int = field(default_factory=time.monotonic_ns)


def describe_function(
    gm: GraphModule, observers: tuple[Callable[[GraphInfo], object], ...] = ()
) -> FunctionInfo:
    """The description of a function that is about to be compiled or looked up, in its compile context."""
    context = CompileContext.try_get()
    number = None if context is None else context.compile_id
    return FunctionInfo(
        compile_id="" if number is None else str(number),
        backend_id=str(gm.meta.get("backend_id", "")),
        compressed=zlib.compress(graph_text(gm).encode("utf-8", "surrogatepass"), 1),
        observers=observers,
    )


def graph_text(gm: GraphModule) -> str:
    """A graph as Python, with the source line of each node in comments; the reason, where torch cannot print it."""
    try:
        text: str = gm.print_readable(print_output=False)
    except Exception as error:  # of nodes' metadata, which are anybody's; what is shown fails no compilation
        return f"# torch cannot print this graph: {error!r}\n"
    return text


def live_graphs() -> list[GraphInfo]:
    """The descriptions of all graphs whose code is alive, in the order in which they were compiled."""
    found = [o for o in gc.get_objects() if type(o) is GraphInfo]
    return sorted(found, key=lambda info: info.made)
