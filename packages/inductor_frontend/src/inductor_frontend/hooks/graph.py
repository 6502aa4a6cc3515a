"""Upstream's graph lowering with our wrapper installed: nothing is registered globally."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from torch._inductor import ir
from torch._inductor.codegen.common import get_device_op_overrides
from torch._inductor.graph import GraphLowering

from inductor_frontend._compat import EXTERN_MULTI_OUT
from inductor_frontend.errors import HookError
from inductor_frontend.hooks.events import CallNode
from inductor_frontend.hooks.wrapper import RecordingWrapper

__all__ = ["RecordingGraph"]


class RecordingGraph(GraphLowering):
    """Lowers an FX graph and records its wrapper in `recording`."""

    def init_wrapper_code(self, *args: object, **kwargs: object) -> None:
        """Installs our wrapper; takes upstream's arguments, which concern subgraphs and partitions."""
        others = set(self.device_types) - {"cpu", "meta"}
        if others:
            raise HookError(
                "FE202",
                f"the graph uses devices {sorted(others)}; capture handles CPU programs",
                hint="move the model and its inputs to the CPU",
            )
        self.device_type = "cpu"
        self.device_ops = get_device_op_overrides("cpu")
        self.wrapper_code = RecordingWrapper()

    @property
    def recording(self) -> RecordingWrapper:
        """The wrapper of this graph, once code generation has begun."""
        assert isinstance(self.wrapper_code, RecordingWrapper)
        return self.wrapper_code

    def register_operation(self, op: ir.Operation) -> str:
        """Registers `op`; extern nodes are told to record themselves instead of writing text."""
        name = super().register_operation(op)
        if isinstance(op, ir.ExternKernel):
            # An attribute of this node, found before its class's method.
            op.codegen = partial(self._record, op)  # type: ignore[method-assign]
        return name

    def _record(self, node: ir.ExternKernel, wrapper: object) -> None:
        recording = self.recording
        if isinstance(node, EXTERN_MULTI_OUT):
            for out in node.out_variant_output_nodes:
                recording.codegen_allocation(out)
        recording.events.append(CallNode(node))

    def make_subgraph(self, gm: object, example_inputs: object, subgraph_name: str) -> NoReturn:
        """Refuses: control flow with subgraphs is not captured."""
        raise HookError(
            "FE202",
            f"subgraph {subgraph_name}: control flow (cond, while_loop, invoke_subgraph) is not captured",
            hint="keep control flow in Python outside the captured part",
        )
