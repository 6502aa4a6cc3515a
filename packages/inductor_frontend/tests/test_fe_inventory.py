"""What capture knows about the installed torch: a new class or hook shows up here, with its name."""

from __future__ import annotations

import inspect

import torch._inductor.codegen.wrapper as upstream
from torch._inductor import ir, mkldnn_ir

from inductor_frontend._compat import defers_input_checks
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
    assert {c for c in HANDLERS if c.__module__.startswith("torch.")} <= classes


NEWER_THAN_2_11 = {
    "codegen_deferred_alignment_copies",
    "codegen_deferred_input_asserts",
    "register_alignment_check_inputs",
}


def own_hooks() -> set[str]:
    """Hooks of upstream that our wrapper overrides."""
    return {n for n in vars(RecordingWrapper) if not n.startswith("_")}


def test_every_override_is_a_hook_of_upstream() -> None:
    missing = {n for n in own_hooks() if not hasattr(upstream.PythonWrapperCodegen, n)}
    assert missing == (set() if defers_input_checks() else NEWER_THAN_2_11)


def test_overrides_take_upstreams_parameters() -> None:
    for name in own_hooks():
        theirs = getattr(upstream.PythonWrapperCodegen, name, None)
        if theirs is not None:
            ours = inspect.signature(getattr(RecordingWrapper, name))
            assert list(ours.parameters) == list(inspect.signature(theirs).parameters), name


def test_text_that_reaches_the_recording_is_refused() -> None:
    """Every hook that is not overridden ends in `writeline`, or does not write at all."""
    assert "writeline" in own_hooks()
    source = inspect.getsource(upstream.PythonWrapperCodegen.writelines)
    assert "self.writeline(" in source
