"""Inductor's templates, captured with all of their configs and fused operations."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor_config
from torch._inductor.select_algorithm import AlgorithmSelectorCache, autotune_select_algorithm
from torch._inductor.virtualized import V
from torch.nn.attention.flex_attention import flex_attention

from inductor_frontend import CaptureOptions, capture
from inductor_frontend.errors import ConversionError, HookError
from inductor_frontend.kernels.operator_kernels import to_constant
from inductor_frontend.record.templates import call_choices, keeping_choices, operator_choice
from inductor_frontend.triton.definition import definition_of
from inductor_frontend.triton.templates import merged_instances
from tests.common.torch_versions import STORES
from wrapper_ir import ir
from wrapper_ir.expr import Int
from wrapper_ir.json import from_json, to_json
from wrapper_ir.text import parse_program, print_program

pytest.importorskip("triton", reason="Inductor writes Triton kernels only where triton is installed")

TEMPLATES = CaptureOptions(matmuls="templates")
Model = Callable[..., Any]  # Any: what models return


def offline(model: Model, *args: torch.Tensor, **options: Any) -> ir.Program:  # Any: capture's options
    return capture(model, args, **{"target": "cuda:sm_90", "options": TEMPLATES, **options}).program


def descriptor_options(store: bool) -> dict[str, Any]:
    return {"triton.enable_persistent_tma_matmul": True, "triton.enable_template_tma_store": store}


def templates(program: ir.Program) -> list[ir.TritonKernel]:
    return [k for k in program.kernels if isinstance(k, ir.TritonKernel) and k.heuristic == "template"]


def accesses(kernel: ir.TritonKernel) -> dict[str, ir.Access]:
    return {p.name: p.access for p in kernel.params}


class TestMatmuls:
    def test_a_layer_with_what_follows(self) -> None:
        program = offline(nn.Sequential(nn.Linear(64, 128), nn.ReLU()).eval(), torch.randn(32, 64))
        (kernel,) = templates(program)
        assert len(kernel.configs) > 5
        assert len(kernel.configs) == len(set(kernel.configs))
        assert len(program.kernels) == 1
        assert not any(program.main.ops_of(ir.CallExtern))
        assert list(accesses(kernel).values()) == [ir.Access.READ] * 3 + [ir.Access.WRITE]
        text = print_program(program)
        assert parse_program(text) == program
        assert from_json(to_json(program)) == program

    def test_a_config_has_its_own_grid(self) -> None:
        """Blocks of the output: no block in the body differs between configs, but parameters do."""
        program = offline(lambda x, y: x @ y, torch.randn(256, 64), torch.randn(64, 512))
        (kernel,) = templates(program)
        for config in kernel.configs:
            meta = {name: value for name, value in config.meta if isinstance(value, int)}
            blocks = 256 // meta["BLOCK_M"] * (512 // meta["BLOCK_N"])
            assert config.grid == (Int(blocks), Int(1), Int(1))
        assert {"BLOCK_M", "BLOCK_N", "BLOCK_K"} <= set(kernel.order)
        assert "BLOCK_M : tl.constexpr =" not in kernel.source
        assert "ALLOW_TF32 : tl.constexpr = False" in kernel.source
        (launch,) = program.main.ops_of(ir.Launch)
        assert not launch.grid

    @pytest.mark.parametrize(
        ("model", "args"),
        [
            (lambda x, y: torch.bmm(x, y) + 1, (torch.randn(3, 20, 17), torch.randn(3, 17, 40))),
            (
                lambda b, x, y: torch.addmm(b, x, y, alpha=2, beta=3),
                (torch.randn(5), torch.randn(20, 17), torch.randn(17, 5)),
            ),
            (lambda x, y: x.half().float() @ y, (torch.randn(32, 64), torch.randn(64, 48))),
            (lambda x, y: x[2:, :16] @ y[16:, 3:20], (torch.randn(22, 20), torch.randn(32, 24))),
        ],
        ids=["batched", "with a sum", "of what a kernel makes", "of parts"],
    )
    def test_other_matmuls(self, model: Model, args: tuple[torch.Tensor, ...]) -> None:
        program = offline(model, *args)
        (kernel,) = templates(program)
        assert program.kernels == (kernel,)
        assert list(accesses(kernel).values())[-1] is ir.Access.WRITE

    def test_a_convolution(self) -> None:
        program = offline(nn.Conv2d(4, 8, 3, stride=2, padding=1).eval(), torch.randn(2, 4, 15, 15))
        (kernel,) = templates(program)
        assert {"arg_X", "arg_W"} <= set(kernel.order)
        assert len(kernel.configs) > 3

    def test_operators_where_there_is_no_template(self) -> None:
        x = torch.randint(0, 3, (8, 8))
        program = offline(lambda x: x @ x, x)
        assert not templates(program)
        assert [op.target for op in program.main.ops_of(ir.CallExtern)] == ["aten::mm.out"]

    def test_only_where_asked_for(self) -> None:
        program = offline(lambda x, y: x @ y, torch.randn(64, 64), torch.randn(64, 64), options=None)
        assert not program.kernels

    def test_instances_that_take_different_arguments(self) -> None:
        """Inductor's own instances have equal arguments; those of other packages need not, and a grid may be
        any function."""

        def kernel(*args: str, grid: tuple[int, ...] = (1, 1, 1)) -> Any:  # Any: as far as it is looked at
            return SimpleNamespace(
                kernel_name="triton_tem_0",
                args=SimpleNamespace(python_argdefs=lambda: ([], [*args], [], []), workspace_args=[]),
                additional_call_args_and_types=lambda: (grid, ()),
            )

        with V.set_graph_handler(mock.Mock()):
            for kernels in ([kernel("a", "b"), kernel("a")], [kernel("a", grid=())]):
                with pytest.raises(HookError, match=r"FE202.*triton_tem_0") as caught:
                    call_choices(kernels, [None] * len(kernels))
                assert "matmuls" in str(caught.value)

    def test_arguments_by_name(self) -> None:
        """Inductor passes them by name if a model's own operator has several implementations; the first one
        is used."""
        first, second = (
            SimpleNamespace(name=name, description="", output_node=lambda name=name: name)
            for name in ("a", "b")
        )
        layout = SimpleNamespace(device=torch.device("cpu"))
        with keeping_choices(operators_too=False):
            selection = autotune_select_algorithm(  # type: ignore[no-untyped-call]  # torch's
                name="op", choices=[first, second], input_nodes=[], layout=layout
            )
        assert selection in ("a", ("a", first))  # since 2.12 with the choice

    def test_the_process_is_left_as_it_was(self) -> None:
        before = AlgorithmSelectorCache.__call__
        offline(lambda x, y: x @ y, torch.randn(64, 64), torch.randn(64, 64))
        assert AlgorithmSelectorCache.__call__ is before


class TestDescriptors:
    """Templates that load, and optionally store, through tensor descriptors: only they have scratch
    memory."""

    @pytest.mark.parametrize("store", STORES)
    def test_both_templates(self, store: bool) -> None:
        with inductor_config.patch(descriptor_options(store)):
            x, y = torch.randn(256, 128).bfloat16(), torch.randn(128, 256).bfloat16()
            program = offline(lambda x, y: (x @ y).relu(), x, y)
        plain, described = templates(program)
        assert "make_tensor_descriptor" not in plain.source
        assert described.source.count("make_tensor_descriptor") == 2 + store
        assert set(accesses(described)) - set(accesses(plain)) == {"ws_ptr"}
        (multi,) = (k for k in program.kernels if isinstance(k, ir.MultiKernel))
        assert multi.choice is ir.Choice.MEASURE
        assert [v.args for v in multi.variants] == [(0, 1, 2), (0, 1, 2, 3)]
        (launch,) = program.main.ops_of(ir.Launch)
        assert [a.name for a in launch.args if isinstance(a, ir.Value)][-1].startswith("workspace")
        text = print_program(program)
        assert parse_program(text) == program

    def test_beside_an_operator(self) -> None:
        with inductor_config.patch(descriptor_options(store=False)):
            x, y = torch.randn(256, 128).bfloat16(), torch.randn(128, 256).bfloat16()
            program = offline(lambda x, y: x @ y, x, y, options=CaptureOptions(matmuls="candidates"))
        (multi,) = (k for k in program.kernels if isinstance(k, ir.MultiKernel))
        assert [v.args for v in multi.variants] == [(0, 1, 2), (0, 1, 2), (0, 1, 2, 3)]


class TestSizes:
    def capture(self, *hints: int) -> ir.Program:
        return offline(
            lambda x, y: (x @ y).relu(),
            torch.randn(32, 64),
            torch.randn(64, 48),
            dynamic_shapes=({0: torch.export.Dim("rows")}, None),
            options=CaptureOptions(matmuls="templates", size_hints=hints),
        )

    def test_one_kernel_for_all_sizes(self) -> None:
        program = self.capture()
        (kernel,) = program.kernels
        assert isinstance(kernel, ir.TritonKernel)
        assert kernel.grid_params
        assert len(set(kernel.grid_params)) < len(kernel.configs)

    def test_one_kernel_for_each_hint(self) -> None:
        program = self.capture(64, 1024)
        *kernels, multi = program.kernels
        assert kernels == templates(program)
        assert isinstance(multi, ir.MultiKernel)
        assert multi.choice is ir.Choice.SIZE_HINTS
        assert [v.kernel for v in multi.variants] == [k.name for k in kernels]
        assert [v.hints for v in multi.variants] == [
            ((64, 64), (64, 48), (64, 48)),
            ((1024, 64), (64, 48), (1024, 48)),
        ]
        (launch,) = program.main.ops_of(ir.Launch)
        assert len(launch.grid) == len(set(launch.grid)) == len(multi.grid_params)

    def test_sizes_that_are_known_need_no_hint(self) -> None:
        options = CaptureOptions(matmuls="templates", size_hints=(64, 1024))
        x, y = torch.randn(32, 64), torch.randn(64, 48)
        assert offline(lambda x, y: x @ y, x, y, options=options) == offline(lambda x, y: x @ y, x, y)


class TestAttention:
    def test_the_template_of_attention(self) -> None:
        """It is Inductor's only kernel for attention, so it is used whatever the option for matmuls."""
        bias = torch.randn(4)

        def model(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> Any:
            return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h] * (i - j))

        args = (*(torch.randn(1, 4, 128, 64) for _ in range(3)), bias)
        program = offline(model, *args, options=None)
        (kernel,) = templates(program)
        parameters = accesses(kernel)
        assert all(parameters[name] is ir.Access.READ for name in ("arg_Q", "arg_K", "arg_V"))
        assert parameters["arg_LSE"].writes


def template_text(name: str, block: int, body: str = "pass") -> str:
    return f"""
import triton
import triton.language as tl

from torch._inductor.runtime import triton_heuristics

@triton_heuristics.template(
    num_stages=2,
    num_warps=4,
    triton_meta={{'signature': {{'arg_A': '*fp32'}}, 'constants': {{}}, 'configs': [{{}}]}},
    inductor_meta={{'kernel_name': '{name}', 'grid_type': 'FixedGrid', 'fixed_grid': ['_grid_0', '_grid_1', '_grid_2'], 'extra_launcher_args': ['_grid_0', '_grid_1', '_grid_2']}},
)
@triton.jit
def {name}(arg_A):
    BLOCK : tl.constexpr = {block}
    KIND : tl.constexpr = tl.float32
    {body}
"""


class TestInstances:
    """Instances that differ in constants only are one kernel."""

    def test_constants_become_parameters(self) -> None:
        definitions = [definition_of(n, template_text(n, b)) for n, b in (("one", 16), ("two", 32))]
        ((merged, members),) = merged_instances(definitions)
        assert members == (0, 1)
        kernel = merged.kernel
        assert kernel.name == "one"
        assert kernel.order == ("arg_A", "BLOCK")
        assert [c.meta for c in kernel.configs] == [(("BLOCK", 16),), (("BLOCK", 32),)]
        assert "def one(arg_A, BLOCK : tl.constexpr):\n    KIND : tl.constexpr = tl.float32" in kernel.source

    def test_another_body_is_another_kernel(self) -> None:
        texts = [template_text("one", 16), template_text("two", 32, "return"), template_text("three", 64)]
        definitions = [definition_of(n, t) for n, t in zip(("one", "two", "three"), texts, strict=True)]
        assert [members for _, members in merged_instances(definitions)] == [(0, 2), (1,)]


class TestCandidates:
    """The library's operator and the templates are candidates, one of which is selected at run time."""

    OPTIONS = CaptureOptions(matmuls="candidates")

    def chosen(self, program: ir.Program) -> tuple[ir.MultiKernel, list[ir.KernelDef]]:
        (multi,) = (k for k in program.kernels if isinstance(k, ir.MultiKernel))
        by_name = {k.name: k for k in program.kernels}
        return multi, [by_name[v.kernel] for v in multi.variants]

    def test_an_operator_and_templates(self) -> None:
        x, y = torch.randn(64, 32), torch.randn(32, 48)
        program = offline(lambda x, y: (x @ y).relu(), x, y, options=self.OPTIONS)
        multi, (operator, template) = self.chosen(program)
        assert multi.choice is ir.Choice.MEASURE
        assert isinstance(operator, ir.OperatorKernel)
        assert operator.schema.startswith("aten::mm.out(")
        assert isinstance(template, ir.TritonKernel)
        assert len(template.configs) > 5
        assert [v.args for v in multi.variants] == [(0, 1, 2), (0, 1, 2)]
        assert len(program.kernels) == 4  # nothing is fused with what is chosen
        text = print_program(program)
        assert parse_program(text) == program
        assert from_json(to_json(program)) == program

    def test_views_are_arguments_of_the_operator_alone(self) -> None:
        program = offline(nn.Linear(32, 64, bias=False).eval(), torch.randn(16, 32), options=self.OPTIONS)
        multi, _ = self.chosen(program)
        assert [v.args for v in multi.variants] == [(0, 1, 2), (0, 1, 3)]
        (launch,) = program.main.ops_of(ir.Launch)
        view, weight = launch.args[2:]
        assert isinstance(view, ir.Value)
        assert isinstance(weight, ir.Value)
        assert (view.name, weight.name) == ("weight.v", "weight")

    def test_one_tensor_twice(self) -> None:
        program = offline(lambda x: x @ x, torch.randn(64, 64), options=self.OPTIONS)
        multi, _ = self.chosen(program)
        assert [v.args for v in multi.variants] == [(0, 1, 2), (0, 1)]

    def test_arguments_that_are_no_tensors(self) -> None:
        b, x, y = torch.randn(5), torch.randn(20, 17), torch.randn(17, 5)
        program = offline(
            lambda b, x, y: torch.addmm(b, x, y, alpha=2, beta=3), b, x, y, options=self.OPTIONS
        )
        _, (operator, _) = self.chosen(program)
        assert isinstance(operator, ir.OperatorKernel)
        assert dict(operator.constants) == {"alpha": 2, "beta": 3}

    def test_a_convolution(self) -> None:
        model, x = nn.Conv2d(4, 8, 3, padding=1, bias=False).eval(), torch.randn(2, 4, 9, 9)
        _, (operator, _) = self.chosen(offline(model, x, options=self.OPTIONS))
        assert isinstance(operator, ir.OperatorKernel)
        assert operator.schema.startswith("aten::convolution.out(")
        assert dict(operator.constants)["padding"] == (1, 1)

    def test_a_sum_of_two_matmuls(self) -> None:
        """torch's operator for it is not an out variant by name."""
        program = offline(
            lambda a, b, c, d: a @ b + c @ d, *(torch.randn(64, 64) for _ in range(4)), options=self.OPTIONS
        )
        multi, (operator, template) = self.chosen(program)
        assert isinstance(operator, ir.OperatorKernel)
        assert operator.schema.startswith("inductor::_mm_plus_mm(")
        assert isinstance(template, ir.TritonKernel)
        assert [v.args for v in multi.variants] == [(0, 1, 2, 3, 4), (0, 1, 2, 3, 4)]

    def test_templates_alone_where_no_operator_does_the_same(self) -> None:
        """The choice does not specify which of several overloads it calls."""
        choice = SimpleNamespace(op_overload=None, to_callable=lambda: torch.ops.aten.mm, kernel_creator=None)
        caller: Any = SimpleNamespace(choice=choice, input_nodes=[], kwargs={})  # Any: stands in for torch's
        assert operator_choice(caller) is None

    def test_an_argument_without_a_typed_form(self) -> None:
        with pytest.raises(ConversionError, match=r"FE301.*dtype") as caught:
            to_constant("dtype", torch.float32)
        assert "matmuls" in str(caught.value)
