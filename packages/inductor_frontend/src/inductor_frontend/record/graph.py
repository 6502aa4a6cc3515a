"""Inductor's graph lowering with the recording wrapper installed, without global registration."""

from __future__ import annotations

from functools import partial
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen.common import get_device_op_overrides
from torch._inductor.graph import GraphLowering, SubgraphLowering
from torch._inductor.lowering import fallback_handler
from torch._inductor.virtualized import V
from torch.fx import GraphModule

from inductor_frontend.errors import HookError
from inductor_frontend.functionalize.packed_linear import PACKS_AND_MULTIPLIES
from inductor_frontend.functionalize.views import root_of
from inductor_frontend.record.bindings import bind_unbacked
from inductor_frontend.record.donated import donated_alone
from inductor_frontend.record.events import CallNode
from inductor_frontend.record.split_rule import MatmulDecision
from inductor_frontend.record.wrapper import RecordingWrapper, record_own_kernel
from inductor_frontend.torch_patches._compat import (
    EXTERN_MULTI_OUT,
    decomposition_argument,
    own_options,
    subgraphs_of,
    takes_offsets_off,
)
from wrapper_ir_torch.int8_matmuls import WIDENS


class RecordingGraph(GraphLowering):
    """Lowers an FX graph and records its wrapper in `recording`."""

    matmul_decisions: tuple[MatmulDecision, ...] = ()
    """Decisions about its matmuls, if matmuls are split."""

    def init_wrapper_code(self, *args: object, **kwargs: object) -> None:
        """Installs the recording wrapper. Inductor's arguments, about subgraphs and partitions, are ignored.

        Raises HookError FE202 for several device types besides the CPU, or for one without an Inductor
        backend.
        """
        if not set(self.device_types) - {"cpu", "meta"}:
            self._add_devices_of_inputs()
        others = sorted(set(self.device_types) - {"cpu", "meta"})
        if len(others) > 1:
            raise HookError(
                "FE202",
                f"the graph uses devices {others}; a program has the CPU's and one other type",
                hint="move the model and its inputs to one device",
            )
        self.device_type = others[0] if others else "cpu"
        try:
            self.device_ops = get_device_op_overrides(self.device_type)
        except KeyError as error:
            raise HookError(
                "FE202",
                f"Inductor has no backend for {self.device_type}",
                hint="call register_backend_for_device and register_device_op_overrides of "
                "torch._inductor.codegen.common",
            ) from error
        self.wrapper_code = self.make_wrapper()

    def _add_devices_of_inputs(self) -> None:
        """Adds devices of inputs. Inductor assumes the CPU for a graph that computes nothing, such as one
        that returns its input."""
        for value in self.graph_inputs.values():
            device = value.get_device() if isinstance(value, ir.TensorBox) else None
            if device is not None:
                self.add_device_info(device)

    def run(self, *args: object) -> object:  # type: ignore[override]  # Inductor's signature, not torch.fx's
        """Lowers the graph. Donated inputs that overlap other inputs are excluded first: Inductor would
        overwrite them."""
        self.bw_donated_idxs = donated_alone(args, self.bw_donated_idxs or ())
        return super().run(*args)

    def make_wrapper(self) -> RecordingWrapper:
        """Returns the wrapper of a top-level graph."""
        return RecordingWrapper()

    @property
    def recording(self) -> RecordingWrapper:
        """The wrapper of this graph, after code generation has begun."""
        assert isinstance(self.wrapper_code, RecordingWrapper)
        return self.wrapper_code

    def input_offsets(self) -> dict[str, object]:
        """Returns the storage offset of each tensor input by name, in elements: a number, or an expression
        over symbols."""
        inputs = zip(self.graph_input_names, self.example_inputs or ())
        offsets = {name: x.storage_offset() for name, x in inputs if isinstance(x, torch.Tensor)}
        return {name: x.node.expr if isinstance(x, torch.SymInt) else x for name, x in offsets.items()}

    def call_function(self, target: Any, args: Any, kwargs: dict[str, object]) -> object:
        """Lowers one node. Inductor itself would assume 0 for the storage offset of any input."""
        if target is torch.ops.aten.sym_storage_offset.default:
            value = self.current_node.meta["val"]
            return value.node.expr if isinstance(value, torch.SymInt) else value
        fallback: Any = partial(fallback_handler, add_to_fallback_set=False)
        if target in (PACKS_AND_MULTIPLIES, WIDENS):
            return fallback(target)(*args, **kwargs)
        if target is torch.ops.aten.as_strided.default and (source := _input_of(args[0])) is not None:
            offset = self.input_offsets()[source.get_name()]
            if self._reaches_outside(source, offset, *args[1:]) and not self._writes(source.get_name()):
                return fallback(target)(*args, **kwargs)
            if not takes_offsets_off(self) and len(args) > 3 and args[3] is not None:
                args = (*args[:3], args[3] - offset)
        return super().call_function(target, args, kwargs)

    def _reaches_outside(
        self, source: ir.InputBuffer, begin: object, sizes: Any, strides: object, offset: object = None
    ) -> bool:
        """Returns whether a view of `source` may include memory outside the input itself.

        The operator then checks the size of the storage at run time. `begin` is the offset of the input,
        `offset` that of the view.
        """
        known_leq = self.sizevars.statically_known_leq
        offset = begin if offset is None else offset
        own, visible = (
            sympy.expand(sum((sympy.sympify(n) - 1) * t for n, t in zip(*layout)))
            for layout in ((source.get_size(), source.get_stride()), (sizes, strides))
        )
        return not (known_leq(begin, offset) and known_leq(offset + visible, begin + own))

    def _writes(self, name: str) -> bool:
        """Returns whether the graph writes to an input's memory. Inductor orders writes by the names of
        buffers."""
        assert isinstance(self.module, GraphModule)
        calls = self.module.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
        return any(root_of(call.args[0]).name == name for call in calls)

    def register_operation(self, op: ir.Operation) -> str:
        """Registers `op`. Code generation of an extern node is replaced by its recording."""
        name = super().register_operation(op)
        if isinstance(op, ir.ExternKernel):
            # An attribute of the node takes precedence over the method of its class.
            op.codegen = partial(self._record, op)  # type: ignore[method-assign]
        return name

    def _record(self, node: ir.ExternKernel, wrapper: object) -> None:
        recording = self.recording
        if isinstance(node, EXTERN_MULTI_OUT):
            for out in node.out_variant_output_nodes:
                recording.codegen_allocation(out)
        for subgraph in subgraphs_of(node):
            assert isinstance(subgraph.graph, RecordingSubgraph)
            if own_options(subgraph):
                raise HookError(
                    "FE202",
                    f"region {subgraph.name} has separate options: {', '.join(own_options(subgraph))}",
                    hint="set them for the whole capture",
                )
            subgraph.graph.record()
        if isinstance(node, ir.UserDefinedTritonKernel):
            record_own_kernel(recording, node)
        elif not isinstance(node, ir.TMADescriptorStable):  # recorded as an argument of its kernel
            recording.events.append(CallNode(node))

    def make_subgraph(
        self, gm: GraphModule, example_inputs: list[Any], subgraph_name: str
    ) -> RecordingSubgraph:  # Any: fake tensors and numbers
        """Returns the lowering of a subgraph (a branch, a loop's condition or body, a shared region).

        Its name is qualified by the names of the enclosing graphs.
        """
        bind_unbacked(gm)
        return RecordingSubgraph(
            parent=self,
            gm=gm,
            example_inputs=example_inputs,
            shape_env=self._shape_env,
            is_inference=self.is_inference,
            is_backward=self.is_backward,
            name=self.qualify_name(subgraph_name),
            **decomposition_argument(),
        )


def _input_of(x: object) -> ir.InputBuffer | None:
    """Returns the input that a node is a view of; None if it is not a view of an input."""
    while isinstance(x, (ir.BaseView, ir.MutableBox)):
        x = x.unwrap_view() if isinstance(x, ir.BaseView) else x.data
    return x if isinstance(x, ir.InputBuffer) and not isinstance(x, ir.ConstantBuffer) else None


class RecordingSubgraph(RecordingGraph, SubgraphLowering):
    """Records a subgraph. Its arguments are Inductor's; `parent` is the graph that calls it."""

    def __init__(self, parent: RecordingGraph, **kwargs: object) -> None:
        super().__init__(parent, **kwargs)
        self.recorded = False
        # The positions refer to inputs of the whole backward graph.
        self.bw_donated_idxs = None

    def make_wrapper(self) -> RecordingWrapper:
        """Returns a wrapper that shares kernels with the caller's wrapper."""
        assert isinstance(self.parent, RecordingGraph)
        return RecordingWrapper(self.parent.recording)

    def output(self, *args: Any, **kwargs: Any) -> None:  # Any: as in Inductor
        """Ends the lowering. Results with a storage offset are copied: Inductor makes callers add the offset
        again."""
        super().output(*args, **kwargs)
        self.graph_outputs = [_at_start(x) for x in self.graph_outputs]
        self.finalize()

    def record(self) -> None:
        """Schedules the subgraph once; its parent may call it from several places."""
        if not self.recorded:
            self.recorded = True
            with V.set_graph_handler(self):
                self.codegen()


def _at_start(result: ir.IRNode) -> ir.IRNode:
    """Copies a result of a subgraph if it is a view that does not start at its storage's first element."""
    if not isinstance(result, ir.ReinterpretView) or result.get_layout().offset == 0:
        return result
    copied = ir.ExternKernel.copy_input(result)
    return ir.ExternKernel.require_exact_strides(copied, result.get_stride(), allow_padding=False)
