"""What capture knows about the installed torch: a new class or hook shows up here, with its name."""

from __future__ import annotations

import inspect

import torch._inductor.codegen.wrapper as upstream
from torch._inductor import ir, mkldnn_ir

from inductor_frontend.build.nodes import HANDLERS, handler_of
from inductor_frontend.hooks import RecordingWrapper

GPU_OR_CONTROL_FLOW = {
    "Conditional",
    "InvokeSubgraph",
    "SubgraphBuffer",
    "TMADescriptor",
    "TMADescriptorExperimental",
    "TMADescriptorStable",
    "UserDefinedTritonKernel",
    "WhileLoop",
}
"""Classes that capture refuses by name (FE202, FE203)."""

ABSTRACT = {"ExternKernel", "MutatingFirstArgExternKernel", "MemoryCheckKernel"}
"""Bases that upstream never instantiates, and a kernel of its own memory tests."""


def extern_classes() -> dict[str, type[ir.ExternKernel]]:
    """All extern node classes of the installed torch, by name."""
    found: dict[str, type[ir.ExternKernel]] = {}
    stack: list[type[ir.ExternKernel]] = [ir.ExternKernel]
    while stack:
        cls = stack.pop()
        if cls.__module__.startswith("torch."):
            found[cls.__name__] = cls
        stack.extend(cls.__subclasses__())
    return found


def test_every_extern_class_is_handled_or_refused_by_name() -> None:
    unknown = {
        name
        for name, cls in extern_classes().items()
        if handler_of(cls) is None
        and not issubclass(cls, ir._CollectiveKernel)
        and cls.__module__ != mkldnn_ir.__name__  # packed weights, only with freezing
    }
    assert unknown <= GPU_OR_CONTROL_FLOW | ABSTRACT, unknown - GPU_OR_CONTROL_FLOW - ABSTRACT


def test_handlers_name_classes_that_exist() -> None:
    classes = set(extern_classes().values())
    assert set(HANDLERS) <= classes


RECORDED = {
    "codegen_allocation",
    "codegen_deferred_alignment_copies",
    "codegen_deferred_input_asserts",
    "codegen_free",
    "codegen_inplace_reuse",
    "codegen_input_size_asserts",
    "define_kernel",
    "ensure_size_computed",
    "generate",
    "generate_kernel_call",
    "writeline",
}


def test_recorded_hooks_exist_upstream_with_the_same_parameters() -> None:
    for name in RECORDED:
        ours = inspect.signature(getattr(RecordingWrapper, name))
        theirs = inspect.signature(getattr(upstream.PythonWrapperCodegen, name))
        assert list(ours.parameters) == list(theirs.parameters), name


def test_every_override_is_a_hook_of_upstream() -> None:
    own = {n for n in vars(RecordingWrapper) if not n.startswith("_")}
    missing = {n for n in own if not hasattr(upstream.PythonWrapperCodegen, n)}
    assert missing == set()
