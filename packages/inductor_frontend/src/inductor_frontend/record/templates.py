"""Keeps all instances of Inductor's templates of matmuls, convolutions and attention, without benchmarking
them.

For such an op, Inductor creates a list of choices: instances of a template, which differ in their block
sizes, and the library's operator. It then compiles and benchmarks them, at once or during fusion. Here the
graph contains the list itself, as one node that fuses like any template.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import sympy
from torch._inductor import ir
from torch._inductor.codegen.multi_kernel import MultiKernel
from torch._inductor.select_algorithm import (
    AlgorithmSelectorCache,
    ExternKernelCaller,
    ExternKernelChoice,
    TritonTemplateCaller,
)
from torch._inductor.virtualized import V
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils._ordered_set import OrderedSet

from inductor_frontend.errors import HookError
from inductor_frontend.record.events import OperatorChoice, written_arguments
from inductor_frontend.torch_patches.replaced import replaced
from inductor_frontend.torch_patches.table import (
    MEASUREMENT_KEY,
    TEMPLATE_CHOICES,
    TEMPLATE_CODE,
    TEMPLATE_MODULES,
    TEMPLATE_OPERATORS,
    TEMPLATE_SELECTOR,
)

# Any in this file: Inductor's choices, kernels and nodes, which differ between versions of torch.


class TemplateChoices(ir.TritonTemplateBuffer):
    """A buffer that any of several template instances can compute."""

    choices: tuple[TritonTemplateCaller, ...]
    extern: ExternKernelCaller | None = None
    """Inductor's choice of an operator that computes the same; None if no such operator exists, or it is
    disabled."""


class _AllOf(ir.ChoiceCaller):
    """Stands in for the choice that Inductor would select, and contains all of them."""

    def __init__(
        self, choices: Sequence[TritonTemplateCaller], extern: ExternKernelCaller | None = None
    ) -> None:
        first = choices[0]
        super().__init__(first.name, first.input_nodes, first.layout, first.description)
        self._choices = tuple(choices)
        self._extern = extern

    def output_node(self) -> ir.TensorBox:
        first = self._choices[0]
        buffer = TemplateChoices(
            layout=first.layout,
            inputs=first.input_nodes,
            make_kernel_render=first.get_make_kernel_render(),  # type: ignore[no-untyped-call]  # Inductor's
            mutated_inputs=first.mutated_inputs,
            allowed_prologue_inps=OrderedSet.intersection(*[c.allowed_prologue_inps for c in self._choices]),
        )
        buffer.choices = self._choices
        buffer.extern = self._extern
        return ir.TensorBox.create(buffer)


def _select(
    plain: Callable[..., object],
    operators_too: bool,
    cache: object,
    name: str,
    choices: list[ir.ChoiceCaller],
    input_nodes: list[ir.IRNode],
    layout: ir.Layout,
    **options: object,
) -> object:
    """Selects all template instances; without any, the library's operator, or else Inductor's first choice.

    An instance with fewer inputs than the op omits one (on a CPU, Inductor's templates ignore a convolution's
    bias).
    """
    callers = [c for c in choices if isinstance(c, TritonTemplateCaller)]
    templates = [c for c in callers if len(c.input_nodes) >= len(input_nodes)]
    externs = [c for c in choices if isinstance(c, ExternKernelCaller)]
    selection = [*externs, *choices][:1]
    if templates:
        operators = [c for c in externs if operators_too and operator_choice(c) is not None]
        selection = [_AllOf(_for_sizes(templates), next(iter(operators), None))]
    return plain(cache, name, selection, input_nodes, layout, **options)


def operator_choice(extern: ExternKernelCaller) -> OperatorChoice | None:
    """Returns the operator that one of Inductor's choices calls; None if it has no out variant."""
    overload = _overload(extern.choice)
    if overload is None or extern.choice.kernel_creator is not None:
        return None
    if not written_arguments(overload):
        overload = getattr(overload.overloadpacket, "out", None)  # not every operator has one of this name
    if not isinstance(overload, OpOverload) or len(written_arguments(overload)) != 1:
        return None
    return OperatorChoice(overload, len(extern.input_nodes), dict(extern.kwargs))


def _overload(choice: ExternKernelChoice) -> OpOverload | None:
    """Returns the overload of a choice: it has the overload, or an operator with only one overload."""
    overload = choice.op_overload
    packet = choice.to_callable() if overload is None else None  # type: ignore[no-untyped-call]  # Inductor's
    if isinstance(packet, OpOverloadPacket):
        names = packet.overloads()  # type: ignore[no-untyped-call]  # torch's
        overload = getattr(packet, names[0]) if len(names) == 1 else None
    return overload if isinstance(overload, OpOverload) else None


def _for_sizes(choices: list[TritonTemplateCaller]) -> list[TritonTemplateCaller]:
    """Returns the choices for concrete sizes, or, if a size is symbolic, those for size hints."""
    hinted = [c for c in choices if c.hint_override is not None]
    first = choices[0]
    sizes = [s for size in (first.layout.size, *(n.get_size() for n in first.input_nodes)) for s in size]
    dynamic = any(isinstance(s, sympy.Expr) and not s.is_number for s in sizes)
    return hinted if hinted and dynamic else [c for c in choices if c.hint_override is None]


def _codegen_choices(
    scheduling: Any, template: Any, epilogue: Sequence[object], prologue: Sequence[object]
) -> None:
    """Generates a kernel for each choice, and one call with shared arguments and a grid for each kernel."""
    node = template.node
    kernels = []
    for choice in node.choices:
        kernel, render = choice.get_make_kernel_render()(node, hint_override=choice.hint_override)
        kernels.append(scheduling._codegen_single_template(kernel, render, template, epilogue, prologue))
    call_choices(kernels, [c.hint_override for c in node.choices], node.extern)
    V.graph.removed_buffers |= OrderedSet.intersection(*[k.removed_buffers for k in kernels])
    V.graph.inplaced_to_remove |= OrderedSet.intersection(*[k.inplaced_to_remove for k in kernels])
    scheduling.free_buffers_in_scheduler()


def call_choices(
    kernels: list[Any], hints: list[int | None], extern: ExternKernelCaller | None = None
) -> None:
    """Generates the one call of these kernels.

    Raises HookError FE202 if they have different arguments, or a grid that is not an expression.
    """
    wrapper: Any = V.graph.wrapper_code
    grids = [kernel.additional_call_args_and_types()[0] for kernel in kernels]
    scratch = [bool(kernel.args.workspace_args) for kernel in kernels]
    MultiKernel.merge_workspaces_inplace(kernels)  # type: ignore[no-untyped-call]  # Inductor's
    args = [kernel.args.python_argdefs()[1] for kernel in kernels]
    name = kernels[0].kernel_name
    if not all(grids) or any(a != args[0] for a in args):
        raise HookError(
            "FE202",
            f"the instances of template kernel {name} have different arguments, "
            "or a grid that only Python computes",
            hint='capture with CaptureOptions(matmuls="extern")',
        )
    workspaces = {w.outer_name for w in kernels[0].args.workspace_args}
    plain = [i for i, arg in enumerate(args[0]) if arg not in workspaces]
    takes = [range(len(args[0])) if with_scratch else plain for with_scratch in scratch]
    operator = None if extern is None else operator_choice(extern)
    tensors = () if extern is None else extern.input_nodes
    multi = wrapper.multi_kernel_state.define_templates(kernels, hints, takes, len(grids[0]), operator)
    for workspace in kernels[0].args.workspace_args:
        wrapper.generate_workspace_allocation(workspace)
    wrapper.generate_kernel_call(multi, [*args[0], *(size for grid in grids for size in grid), *tensors])


def _unloaded(code: str, extra: str = "", **options: object) -> SimpleNamespace:
    """Returns the attributes that Inductor reads of an instance's module, which is never loaded or run."""
    return SimpleNamespace(__file__="", key=hashlib.sha256((code + extra).encode()).hexdigest())


@cache
def _selector() -> AlgorithmSelectorCache:
    """Returns a selector for captures in a process that has not benchmarked anything yet.

    It needs no key for measurements, since `_select` passes it one choice. Torch creates its own selector
    when needed.
    """
    with replaced(MEASUREMENT_KEY.by(__init__=lambda self: None)):
        return AlgorithmSelectorCache()


@contextmanager
def keeping_choices(operators_too: bool) -> Iterator[None]:
    """Keeps all template instances while the context is active; they are neither loaded nor benchmarked.

    With `operators_too`, operators that compute the same are kept as well.
    """
    select, codegen = TEMPLATE_CHOICES.own(), TEMPLATE_CODE.own()

    def selecting(cache: object, *args: Any, **options: Any) -> object:
        return _select(select, operators_too, cache, *args, **options)

    def generating(scheduling: Any, node: Any, epilogue: Any, prologue: Any, **options: object) -> object:
        if not isinstance(node.node, TemplateChoices):
            return codegen(scheduling, node, epilogue, prologue, **options)
        _codegen_choices(scheduling, node, epilogue, prologue)
        return None

    with replaced(
        TEMPLATE_CHOICES.by(__call__=selecting),
        TEMPLATE_SELECTOR.by(_ALGORITHM_SELECTOR_CACHE=TEMPLATE_SELECTOR.own() or _selector()),
        TEMPLATE_CODE.by(codegen_template=generating),
        TEMPLATE_MODULES.by(PyCodeCache=SimpleNamespace(load=_unloaded)),
        TEMPLATE_OPERATORS.by(use_aten_gemm_kernels=lambda: False),
    ):
        yield
