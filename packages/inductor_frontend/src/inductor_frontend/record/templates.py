"""Inductor's templates of matmuls, convolutions and attention: every instance is kept, none is measured.

Inductor makes a list of choices for such an op: instances of a template, which differ in their blocks, and the library's
operator. Then it compiles and measures them, now or while it fuses. Here the list itself is what the graph holds, as one
node that fuses as any template does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
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

# Any in this file: Inductor's choices, kernels and nodes, which differ between versions.


class TemplateChoices(ir.TritonTemplateBuffer):
    """A buffer that any of several instances of templates makes."""

    choices: tuple[Any, ...]
    extern: Any = None
    """Inductor's choice of an operator that computes the same; None: there is none, or it is not wanted."""


class _AllOf(ir.ChoiceCaller):
    """Takes the place of a choice that Inductor has made."""

    def __init__(self, choices: Sequence[Any], extern: Any = None) -> None:
        first = choices[0]
        super().__init__(first.name, first.input_nodes, first.layout, first.description)
        self._choices = tuple(choices)
        self._extern = extern

    def output_node(self) -> Any:
        first = self._choices[0]
        buffer = TemplateChoices(
            layout=first.layout,
            inputs=first.input_nodes,
            make_kernel_render=first.get_make_kernel_render(),
            mutated_inputs=first.mutated_inputs,
            allowed_prologue_inps=OrderedSet.intersection(*[c.allowed_prologue_inps for c in self._choices]),
        )
        buffer.choices = self._choices
        buffer.extern = self._extern
        return ir.TensorBox.create(buffer)


def _select(
    plain: Any,
    operators_too: bool,
    cache: Any,
    name: str,
    choices: list[Any],
    input_nodes: list[Any],
    layout: Any,
    **given: Any,
) -> Any:
    """All instances of templates; where there are none, the library's operator, or else what Inductor names first. An
    instance with less inputs than there are leaves something out (on a CPU, Inductor's forget a convolution's bias)."""
    able = [c for c in choices if isinstance(c, TritonTemplateCaller)]
    templates = [c for c in able if len(c.input_nodes) >= len(input_nodes)]
    externs: list[Any] = [c for c in choices if isinstance(c, ExternKernelCaller)]
    kept: list[Any] = (externs or choices)[:1]
    if templates:
        operators = [c for c in externs if operators_too and operator_choice(c) is not None]
        kept = [_AllOf(_for_sizes(templates), next(iter(operators), None))]
    return plain(cache, name, kept, input_nodes, layout, **given)


def operator_choice(extern: Any) -> OperatorChoice | None:
    """The operator that one of Inductor's choices calls; None for one without a variant that writes its result into an
    argument."""
    overload = _overload(extern.choice)
    if overload is None or extern.choice.kernel_creator is not None:
        return None
    if not written_arguments(overload):
        overload = getattr(overload.overloadpacket, "out", None)  # operators name their variants themselves
    if not isinstance(overload, OpOverload) or len(written_arguments(overload)) != 1:
        return None
    return OperatorChoice(overload, len(extern.input_nodes), dict(extern.kwargs))


def _overload(choice: Any) -> OpOverload | None:
    """What a choice calls: it names the overload, or calls an operator that has only one."""
    found = choice.op_overload
    if found is None and isinstance(packet := choice.to_callable(), OpOverloadPacket):
        names = packet.overloads()  # type: ignore[no-untyped-call]  # torch leaves it so
        found = getattr(packet, names[0]) if len(names) == 1 else None
    return found if isinstance(found, OpOverload) else None


def _for_sizes(choices: list[Any]) -> list[Any]:
    """Of choices made for several sizes, those for the sizes that are known; where they are not, those for hints."""
    hinted = [c for c in choices if c.hint_override is not None]
    first = choices[0]
    sizes = [s for size in (first.layout.size, *(n.get_size() for n in first.input_nodes)) for s in size]
    dynamic = any(isinstance(s, sympy.Expr) and not s.is_number for s in sizes)
    return hinted if hinted and dynamic else [c for c in choices if c.hint_override is None]


def _codegen_choices(
    scheduling: Any, template: Any, epilogue: Sequence[Any], prologue: Sequence[Any]
) -> None:
    """Writes a kernel for each choice, and one call, which gives all of them the same arguments, and each a grid."""
    node = template.node
    kernels = []
    for choice in node.choices:
        kernel, render = choice.get_make_kernel_render()(node, hint_override=choice.hint_override)
        kernels.append(scheduling._codegen_single_template(kernel, render, template, epilogue, prologue))
    call_choices(kernels, [c.hint_override for c in node.choices], node.extern)
    V.graph.removed_buffers |= OrderedSet.intersection(*[k.removed_buffers for k in kernels])
    V.graph.inplaced_to_remove |= OrderedSet.intersection(*[k.inplaced_to_remove for k in kernels])
    scheduling.free_buffers_in_scheduler()


def call_choices(kernels: list[Any], hints: list[int | None], extern: Any = None) -> None:
    """Writes the one call of these kernels. Raises HookError FE202 where they take different arguments, or have a grid that
    is not an expression."""
    wrapper: Any = V.graph.wrapper_code
    grids = [kernel.additional_call_args_and_types()[0] for kernel in kernels]
    scratch = [bool(kernel.args.workspace_args) for kernel in kernels]
    MultiKernel.merge_workspaces_inplace(kernels)  # type: ignore[no-untyped-call]  # Inductor's
    args = [kernel.args.python_argdefs()[1] for kernel in kernels]
    name = kernels[0].kernel_name
    if not all(grids) or any(a != args[0] for a in args):
        raise HookError(
            "FE202",
            f"the instances of template kernel {name} take different arguments, or have a grid that only Python computes",
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


def _unloaded(code: str, extra: str = "", **given: Any) -> Any:
    """What Inductor wants to know of an instance's module, which is not loaded: nobody runs it."""
    return SimpleNamespace(__file__="", key=hashlib.sha256((code + extra).encode()).hexdigest())


@cache
def _selector() -> AlgorithmSelectorCache:
    """What Inductor selects with in captures where the process has measured nothing yet. It has no key for measurements: `_select` leaves
    it one choice. Torch makes its own when it needs one."""
    with replaced(MEASUREMENT_KEY.by(__init__=lambda self: None)):
        return AlgorithmSelectorCache()


@contextmanager
def keeping_choices(operators_too: bool) -> Iterator[None]:
    """While the context is active, Inductor keeps all instances of templates, with the operators that compute the same if asked to, and
    neither loads nor measures them."""
    select, codegen = TEMPLATE_CHOICES.own(), TEMPLATE_CODE.own()

    def selecting(cache: Any, *args: Any, **given: Any) -> Any:
        return _select(select, operators_too, cache, *args, **given)

    def generating(scheduling: Any, node: Any, epilogue: Any, prologue: Any, **given: Any) -> Any:
        if isinstance(node.node, TemplateChoices):
            return _codegen_choices(scheduling, node, epilogue, prologue)
        return codegen(scheduling, node, epilogue, prologue, **given)

    with replaced(
        TEMPLATE_CHOICES.by(__call__=selecting),
        TEMPLATE_SELECTOR.by(_ALGORITHM_SELECTOR_CACHE=TEMPLATE_SELECTOR.own() or _selector()),
        TEMPLATE_CODE.by(codegen_template=generating),
        TEMPLATE_MODULES.by(PyCodeCache=SimpleNamespace(load=_unloaded)),
        TEMPLATE_OPERATORS.by(use_aten_gemm_kernels=lambda: False),
    ):
        yield
