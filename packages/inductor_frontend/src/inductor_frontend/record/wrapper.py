"""Records events in place of the wrapper code that Inductor's scheduler generates.

Every hook that Inductor may call either records an event, or ends in `writeline`, which refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy
from torch._inductor import config, ir
from torch._inductor.codegen.common import WorkspaceArg
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_frontend.errors import HookError
from inductor_frontend.record import events
from inductor_frontend.record.communication import check_communication_buffer
from inductor_frontend.record.inplace import inplace_pairs
from inductor_frontend.record.kernels import kernel_nodes, translation_unit, triton_module
from inductor_frontend.record.launch_args import cpp_args, triton_args
from inductor_frontend.record.multi_kernels import RecordingMultiKernels
from inductor_frontend.torch_patches._compat import (
    ORDERS_STREAMS,
    defers_input_checks,
    entered_stream,
    without_options,
    written_parameters,
)


def buffer_under(node: ir.IRNode) -> ir.Buffer:
    """Returns the buffer under a chain of views and boxes."""
    while not isinstance(node, ir.Buffer):
        is_view = isinstance(node, ir.BaseView)
        node = node.unwrap_view() if is_view else node.data  # type: ignore[attr-defined]  # boxes
    return node


def _changed_inputs(node: object) -> list[str]:
    """Returns names of the inputs that a template mutates."""
    inputs = node.mutated_inputs if isinstance(node, ir.TritonTemplateBuffer) else None
    return [x.get_name() for x in inputs or ()]


def _operand(raw: object, arg: object) -> object:
    """Returns an argument of a model's own kernel; for a descriptor, its tensor."""
    if isinstance(raw, ir.TMADescriptorStable):
        return raw.get_tensor()
    return raw if isinstance(raw, ir.IRNode) else arg


def record_own_kernel(wrapper: RecordingWrapper, node: ir.UserDefinedTritonKernel) -> None:
    """Records a kernel that the model provides: Inductor collects its source, and calls the hooks that define
    and call it."""
    wrapper._own = node
    without_options(node)
    try:
        type(node).codegen(node, wrapper)
    finally:
        wrapper._own = None


def expect_partials(wrapper: RecordingWrapper, partials: Iterable[events.FinishReduction]) -> None:
    """Sets the partial results of the kernel that was just called."""
    wrapper._partials = tuple(partials)


class RecordingWrapper(PythonWrapperCodegen):
    """Records one graph's wrapper as `events`. Parameters of hooks are Inductor's; see the base class.

    `caller` is the wrapper of the graph that calls a subgraph: kernels of a program are numbered together,
    and each source is defined once.
    """

    _partials: tuple[events.FinishReduction, ...] = ()
    """Partial results of the last called kernel: Inductor writes a line for each."""

    def __init__(self, caller: RecordingWrapper | None = None) -> None:
        self.caller = caller
        self.events: list[events.Event] = []
        self._own: Any = None  # Any: Inductor's class does not declare all attributes that are read here
        self._unchecked: dict[str, None] = {}
        self._unaligned: dict[str, None] = {}
        super().__init__()  # type: ignore[no-untyped-call]  # Inductor's
        if caller is None:
            self.multi_kernel_state = RecordingMultiKernels(self.events.append)
        else:
            self.src_to_kernel = caller.src_to_kernel
            self.multi_kernel_state = caller.multi_kernel_state

    # --- text that Inductor writes around the body, all of which is discarded

    def write_header(self) -> None:
        """Writes no header."""

    def write_prefix(self) -> None:
        """Queues or records the checks of inputs; inputs themselves are read from the graph.

        Inputs of a subgraph have been checked by its caller.
        """
        if self.caller is not None:
            return
        if config.size_asserts:
            self.codegen_input_size_asserts()
        if not defers_input_checks():
            self.codegen_deferred_input_asserts(list(self._unchecked))
            self.register_alignment_check_inputs()
            self.codegen_deferred_alignment_copies(list(self._unaligned))

    def write_kernel_autotune_defs_header(self) -> None:
        """Writes no autotuning block."""

    def write_constant(self, name: str, hashed: str) -> None:
        """Ignores constants, which are read from the graph."""

    def make_comment(self, line: object) -> None:
        """Ignores comments, which provenance replaces."""

    def write_provenance_debug_handle(self, kernel_name: str, debug_handle: int | None = None) -> None:
        """Ignores debug handles, which provenance replaces."""

    def write_triton_header_once(self) -> None:  # type: ignore[override]  # Inductor's has `cache_on_self`
        """Writes no imports."""

    def codegen_device_guard_enter(
        self, device_idx: int, num_streams: int = 1, stream_idx_to_user_obj_idx: object = None
    ) -> None:
        """Records nothing: devices are attributes of types, and streams are recorded when they are entered.

        Raises HookError FE202 for several streams if this version of torch does not report them.
        """
        if num_streams > 1 and not ORDERS_STREAMS:
            raise HookError(
                "FE202",
                "the model runs on several streams, which this version of torch does not order",
                hint="capture it without torch.cuda.stream",
            )

    def codegen_device_guard_exit(self) -> None:
        """Records nothing, like `codegen_device_guard_enter`."""

    def codegen_cuda_stream_enter(self, stream_idx: int) -> Any:  # Any: torch 2.11 lacks this class of lines
        """Records the stream by its number in the graph. Inductor's scheduler keeps the returned line."""
        numbers = V.graph.scheduler.stream_idx_to_user_obj_idx
        self.events.append(events.OnStream(numbers.get(stream_idx, 0)))
        return entered_stream(stream_idx)

    def codegen_cuda_stream_exit(self) -> None:
        """Records the end of a stream."""
        self.events.append(events.OnStream(0))

    def codegen_cuda_mempool_enter(self, mempool: tuple[int, int]) -> None:
        """Raises HookError FE202 for a memory pool."""
        raise HookError(
            "FE202",
            f"the model allocates from a separate memory pool, on CUDA device {mempool[1]}",
            hint="call the compiled model inside torch.cuda.use_mem_pool instead: all of its memory is then "
            "allocated from the pool",
        )

    def enter_context(self, ctx: object) -> None:
        """Ignores contexts of lines, which concern text only."""

    def generate(self, is_inference: bool) -> tuple[list[events.Event], None]:
        """Returns the events: this is Inductor's last call."""
        return self.events, None

    def writeline(self, line: object) -> None:
        """Records an expected line; raises HookError FE201 for any other."""
        first, *rest = self._partials or (None,)
        if first is not None and str(line).startswith(f"{first.name} = {first.workspace}["):
            self._partials = tuple(rest)
            buffer = V.graph.get_buffer(first.name)
            assert isinstance(buffer, ir.Buffer), "a result of this graph, not an input"
            self.codegen_allocation(buffer)
            self.events.append(first)
            return
        raise HookError(
            "FE201",
            f"Inductor wrote a wrapper line of type {type(line).__name__} that capture has no typed form "
            f"for: {str(line)[:200]!r}",
            hint="report it with the model; a captured program cannot contain raw text",
        )

    # --- memory

    def codegen_allocation(self, buffer: ir.Buffer) -> None:
        """Records once the storage of `buffer`, or its view of another buffer."""
        name = buffer.get_name()
        inputs = (ir.DonatedBuffer, ir.InputBuffer)
        if name in V.graph.removed_buffers or name in self.allocated or isinstance(buffer, inputs):
            return
        self.allocated.add(name)
        if (
            isinstance(buffer.get_defining_op(), (ir.ExternKernelAlloc, ir.MultiOutput))
            and not buffer.should_allocate()
        ):
            return
        layout = buffer.get_output_spec()
        match layout:
            case ir.MutationLayoutSHOULDREMOVE() | ir.NoneLayout():
                return
            case ir.NonOwningLayout(view=ir.ReinterpretView() as view):
                self.codegen_allocation(buffer_under(view.data))
                self.events.append(events.Alias(buffer, view))
            case ir.CommBufferLayout():
                check_communication_buffer(name, layout)
                V.graph.never_reuse_buffers.add(name)  # torch 2.11 allows in-place kernels on such buffers
                self.events.append(events.Allocate(buffer))
            case ir.NonOwningLayout():
                raise HookError("FE202", f"buffer {name} has a layout of class {type(layout).__name__}")
            case _:
                self.events.append(events.Allocate(buffer))

    def codegen_free(self, buffer: Any) -> None:  # Any: buffers, workspaces, torchbind objects
        """Marks a buffer as freed for the scheduler. Frees of the program are derived later."""
        if isinstance(buffer, (ir.InputBuffer, ir.TorchBindObject)):
            return
        if self.can_reuse(buffer):  # type: ignore[no-untyped-call]  # Inductor's
            self.freed.add(buffer.get_name())

    def codegen_inplace_reuse(self, input_buffer: ir.Buffer, output_buffer: ir.Buffer) -> None:
        """Records an in-place kernel."""
        self.codegen_allocation(input_buffer)
        self.freed.add(input_buffer.get_name())
        self.allocated.add(output_buffer.get_name())
        self.reuses[output_buffer.get_name()] = input_buffer.get_name()
        self.events.append(events.Reuse(input_buffer, output_buffer))

    # --- kernels

    def next_kernel_suffix(self) -> str:
        """Returns a number for the next kernel, unique in the program."""
        if self.caller is not None:
            return self.caller.next_kernel_suffix()
        return super().next_kernel_suffix()

    def define_kernel(
        self,
        kernel_name: str,
        kernel_body: str,
        metadata: str | None = None,
        gpu: bool = True,
        cpp_definition: str | None = None,
    ) -> None:
        """Records a kernel definition."""
        if cpp_definition is None:
            self.events.append(events.DefineTriton(kernel_name, triton_module(kernel_name, kernel_body)))
        else:
            unit = translation_unit(kernel_name, kernel_body)
            self.events.append(events.DefineKernel(kernel_name, unit, cpp_definition))

    def generate_kernel_call(  # noqa: PLR0913 - Inductor's signature
        self,
        kernel_name: str,
        call_args: Iterable[object],
        *,
        device: object = None,
        triton: bool = True,
        arg_types: Any = None,  # Any: texts for C++, classes and types for Triton
        raw_keys: object = None,
        raw_args: Iterable[object] | None = None,
        triton_meta: object = None,
        inductor_meta: object = None,
        original_fxnode_name: object = None,
    ) -> None:
        """Records a kernel call."""
        if self._own is not None:
            assert raw_args is not None, "Inductor passes them for kernels of a model"
            own, args = self._own, triton_args(_operand(r, a) for r, a in zip(raw_args, call_args))
            origins = tuple(own.get_origins())
            self.events.append(
                events.CallKernel(kernel_name, args, frozenset(), origins, written_parameters(own))
            )
            return
        nodes = kernel_nodes()
        args = triton_args(call_args) if triton else cpp_args(call_args, arg_types)
        call = events.CallKernel(
            name=kernel_name,
            args=args,
            produced=frozenset(self._produced(name for n in nodes for name in n.get_buffer_names())),
            origins=tuple(
                dict.fromkeys(o for n in nodes if n.node is not None for o in n.node.get_origins())
            ),
            changed=frozenset(name for n in nodes for name in _changed_inputs(n.node)),
            inplace=self._inplace(args, inplace_pairs(nodes, self._oldest, whole=triton)),
        )
        self.events.append(call)

    def generate_workspace_allocation(self, ws: WorkspaceArg) -> None:
        """Records scratch memory of the next kernel, including its zero initialization."""
        self.events.append(events.AllocateWorkspace(ws))

    def generate_workspace_deallocation(self, ws: WorkspaceArg) -> None:
        """Records nothing: frees are derived."""

    def generate_numel_expr(self, kernel_name: str, tree: Any, suffix: str | None = None) -> sympy.Expr:
        """Returns the size of a range of a kernel, as an expression. Any: Inductor's class of ranges."""
        numel: sympy.Expr = tree.numel
        return numel

    def _produced(self, names: Iterable[str]) -> set[str]:
        """Returns the buffers that a kernel writes completely. An in-place buffer is one if the buffer it
        replaces is."""
        defined = set(names)
        produced = set()
        for name in defined:
            oldest = name
            while oldest in defined and oldest in self.reuses:
                oldest = self.reuses[oldest]
            if oldest in defined:
                produced.add(name)
        return produced

    def _inplace(
        self, args: Iterable[events.LaunchArg], pairs: frozenset[tuple[str, str]]
    ) -> frozenset[tuple[str, str]]:
        """Returns pairs of buffers among the arguments, from pairs of storages."""
        names = {self._oldest(arg.name): arg.name for arg in args if isinstance(arg, events.BufferArg)}
        return frozenset((names[a], names[b]) for a, b in pairs if a in names and b in names)

    def _oldest(self, name: str) -> str:
        """Returns the buffer whose storage this one has taken over, in one step or several."""
        while name in self.reuses:
            name = self.reuses[name]
        return name

    # --- sizes and checks

    def ensure_size_computed(self, sym: sympy.Symbol) -> None:
        """Records a precomputed size, once."""
        if (
            isinstance(sym, sympy.Symbol)
            and symbol_is_type(sym, SymT.PRECOMPUTED_SIZE)
            and sym not in self.computed_sizes
        ):
            self.computed_sizes.add(sym)
            self.events.append(events.DefineSize(sym, V.graph.sizevars.inv_precomputed_replacements[sym]))

    def codegen_input_size_asserts(self) -> None:
        """Queues one check for each input tensor, which is emitted before its first use."""
        for name, buf in self.get_graph_inputs().items():
            if isinstance(buf, ir.TensorBox) and name in V.graph.graph_input_names:
                self._unchecked[name] = None

    def codegen_deferred_input_asserts(self, input_names: Iterable[str]) -> None:
        """Records the checks of inputs that the next node is the first to use."""
        for name in input_names if self._unchecked else ():
            if name in self._unchecked:
                del self._unchecked[name]
                self.events.append(events.CheckInput(name))

    def register_alignment_check_inputs(self) -> None:
        """Queues alignment copies of inputs, except inputs that are written: like Inductor, it leaves those
        to the caller.

        Before torch 2.12, Inductor aligned inputs outside the wrapper, all of them before it ran.
        """
        mutated = set(V.graph.mutated_input_idxs)
        for index in V.graph.inputs_to_check or ():
            if index not in mutated:
                self._unaligned[V.graph.graph_input_names[index]] = None

    def codegen_deferred_alignment_copies(self, input_names: Iterable[str], stream: int = 0) -> None:
        """Records alignment copies of inputs that the next node is the first to use.

        The stream is ignored: copies are made before streams begin.
        """
        for name in input_names if self._unaligned else ():
            if name in self._unaligned:
                del self._unaligned[name]
                self.events.append(events.AlignInput(name))
