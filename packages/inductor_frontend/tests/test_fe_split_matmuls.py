"""Matmuls with few rows as sums of parts: which are split, the resulting graph, and its results."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, fx, nn
from torch._inductor import config as inductor_config
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import linear, relu, scaled_dot_product_attention

from inductor_frontend import CaptureOptions, capture
from inductor_frontend.backend.options import BackendOptions
from inductor_frontend.cache.environment import option_lines
from inductor_frontend.devices import DEVICES
from inductor_frontend.record import lowering
from inductor_frontend.record.split_matmuls import split_matmuls
from inductor_frontend.record.split_rule import MatmulSizes, parts_of
from wrapper_ir import ir
from wrapper_ir.text import print_program
from wrapper_ir_tools.explain import explain_artifact

SPLIT = CaptureOptions(matmuls="split")
Check = Callable[..., None]
Function = Callable[..., Any]  # Any: of tensors, gives tensors


def ones(*sizes: int, **options: Any) -> Tensor:  # Any: of torch.ones
    return torch.ones(*sizes, **options)


def graph_of(function: Function, *args: Tensor, dynamic: bool = False) -> fx.GraphModule:
    traced: fx.GraphModule = make_fx(function, tracing_mode="symbolic" if dynamic else "fake")(*args)
    return traced


def text_of(gm: fx.GraphModule) -> str:
    """Returns a line for each call, with the sizes of its result."""
    return "\n".join(
        f"{node.name} = {node.target}({', '.join(map(str, node.args))}) {list(node.meta['val'].shape)}"
        for node in gm.graph.nodes
        if node.op == "call_function"
    )


def outcomes(gm: fx.GraphModule, multiprocessors: int = 132) -> list[str]:
    return [one.outcome for one in split_matmuls(gm, lambda device: multiprocessors)]


class TestRule:
    @pytest.mark.parametrize(
        ("sizes", "multiprocessors", "parts"),
        [
            ((64, 768, 2304), 132, 3),  # GPT-2 small on an H100
            ((64, 768, 768), 132, 8),
            ((64, 768, 3072), 132, 2),
            ((64, 3072, 768), 132, 8),
            ((64, 768, 50257), 132, 1),
            ((1, 768, 768), 132, 8),
            ((128, 768, 768), 132, 4),  # five parts have a remainder
            ((64, 768, 768), 72, 6),  # an A10
            ((64, 768, 3072), 72, 1),
            ((8, 64, 64), 132, 1),  # too short for two
            ((8, 192, 64), 132, 2),
            ((8, 193, 64), 132, 1),
            ((8, 200, 64), 132, 1),  # 100 is not a multiple of 16
            ((0, 768, 768), 132, 1),
            ((8, 0, 64), 132, 1),
        ],
    )
    def test_parts(self, sizes: tuple[int, int, int], multiprocessors: int, parts: int) -> None:
        assert parts_of(MatmulSizes(*sizes), multiprocessors) == parts

    @given(st.integers(1, 128), st.integers(1, 600), st.integers(1, 60), st.integers(1, 160))
    def test_each_block_of_each_part_has_a_multiprocessor(
        self, rows: int, steps: int, columns: int, multiprocessors: int
    ) -> None:
        sizes = MatmulSizes(rows, 16 * steps, 64 * columns)
        parts = parts_of(sizes, multiprocessors)
        assert 1 <= parts <= 8
        assert sizes.summed % parts == 0
        assert parts == 1 or parts * sizes.blocks <= multiprocessors


class TestGraphs:
    def test_a_layer(self) -> None:
        gm = graph_of(lambda b, x, w: relu(torch.addmm(b, x, w)), ones(80), ones(8, 192), ones(192, 80))
        assert outcomes(gm) == ["2 parts"]
        assert text_of(gm) == (
            "addmm_rows = aten.reshape.default(x_1, [8, 2, 96]) [8, 2, 96]\n"
            "addmm_left = aten.permute.default(addmm_rows, [1, 0, 2]) [2, 8, 96]\n"
            "addmm_right = aten.reshape.default(w_1, [2, 96, 80]) [2, 96, 80]\n"
            "addmm_parts = aten.bmm.default(addmm_left, addmm_right) [2, 8, 80]\n"
            "addmm_part0 = aten.select.int(addmm_parts, 0, 0) [8, 80]\n"
            "addmm_part1 = aten.select.int(addmm_parts, 0, 1) [8, 80]\n"
            "addmm_sum = aten.add.Tensor(addmm_part0, addmm_part1) [8, 80]\n"
            "addmm_biased = aten.add.Tensor(addmm_sum, b_1) [8, 80]\n"
            "relu = aten.relu.default(addmm_biased) [8, 80]"
        )

    def test_the_sum_is_by_halves(self) -> None:
        gm = graph_of(lambda x, w: relu(x @ w), ones(8, 480), ones(480, 64))
        assert outcomes(gm) == ["5 parts"]
        assert text_of(gm).splitlines()[-5:] == [
            "mm_sum = aten.add.Tensor(mm_part0, mm_part1) [8, 64]",
            "mm_sum_1 = aten.add.Tensor(mm_sum, mm_part2) [8, 64]",
            "mm_sum_2 = aten.add.Tensor(mm_part3, mm_part4) [8, 64]",
            "mm_sum_3 = aten.add.Tensor(mm_sum_1, mm_sum_2) [8, 64]",
            "relu = aten.relu.default(mm_sum_3) [8, 64]",
        ]

    def test_where_new_nodes_come_from(self) -> None:
        gm = graph_of(lambda x, w: relu(x @ w), ones(8, 192), ones(192, 64))
        (matmul,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default)
        matmul.meta["stack_trace"] = "a line"
        split_matmuls(gm, lambda device: 132)
        nodes = [n for n in gm.graph.nodes if n.name.startswith("mm_")]
        assert {n.meta["stack_trace"] for n in nodes} == {"a line"}

    W, WIDE = ones(192, 64), ones(192, 64 * 80)

    @pytest.mark.parametrize(
        ("function", "args", "why"),
        [
            (lambda x, w: relu(x @ w), (ones(129, 192), W), "129 rows, more than 128"),
            (lambda x, w: relu(x @ w), (ones(7, 192), W), "7 rows, fewer than 8"),
            (lambda x, w: relu(x @ w), (ones(8, 192).bfloat16(), W.bfloat16()), "elements are bfloat16, not float32"),
            (lambda x, w: relu(x @ w), (ones(8, 192).half(), W.half()), "elements are float16, not float32"),
            (
                lambda b, x, w: relu(torch.addmm(b, x, w, alpha=2)),
                (ones(64), ones(8, 192), W),
                "it has factors alpha or beta",
            ),
            (
                lambda x, w: relu(x @ w),
                (ones(8, 192), WIDE),
                "no two parts are long enough and fit 132 multiprocessors with 80 block(s)",
            ),
            (
                lambda x, w: relu(x @ w),
                (ones(8, 64), ones(64, 64)),
                "no two parts are long enough and fit 132 multiprocessors with 1 block(s)",
            ),
            (lambda x, w: x @ w, (ones(8, 192), W), "no generated kernel uses it, which the sum could be part of"),
            (
                lambda x, w, v: torch.bmm((x @ w).view(2, 4, 64), v),
                (ones(8, 192), W, ones(2, 64, 3)),
                "no generated kernel uses it, which the sum could be part of",
            ),
        ],
        ids=["many rows", "few rows", "bfloat16", "half", "alpha", "wide", "short", "result", "operand"],
    )  # fmt: skip
    def test_whole_matmuls(self, function: Function, args: tuple[Tensor, ...], why: str) -> None:
        gm = graph_of(function, *args)
        before = text_of(gm)
        assert outcomes(gm) == [why]
        assert text_of(gm) == before

    def test_symbolic_rows(self) -> None:
        gm = graph_of(lambda x, w: relu(x @ w), ones(8, 192), self.W, dynamic=True)
        assert outcomes(gm) == ["a size is symbolic"]

    def test_other_devices(self) -> None:
        gm = graph_of(lambda x, w: relu(x @ w), ones(8, 192), self.W)
        assert [one.outcome for one in split_matmuls(gm)] == ["on cpu, not on a GPU"]

    def test_kernels_that_inductor_makes_of_matmuls(self) -> None:
        gm = graph_of(lambda x, w: relu(x @ w), ones(8, 192), self.W)
        with inductor_config.patch({"triton.native_matmul": True}):
            assert outcomes(gm) == ["a kernel of Inductor's (triton.native_matmul)"]

    def test_a_user_among_others_is_enough(self) -> None:
        def function(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
            y = x @ w
            return y, relu(y.view(4, 128).t().chunk(2)[1])

        assert outcomes(graph_of(function, ones(8, 192), self.W)) == ["2 parts"]

    def test_a_matmul_that_is_added_to_a_split_one(self) -> None:
        """As a term of the sum, it is used by a generated kernel."""
        gm = graph_of(lambda x, v, w: relu(torch.addmm(x @ v, x, w)), ones(8, 192), ones(192, 64), self.W)
        assert outcomes(gm) == ["2 parts", "2 parts"]

    def test_subgraphs(self) -> None:
        inner = graph_of(lambda x, w: relu(x @ w), ones(8, 192), self.W)
        outer = graph_of(lambda x: x + 1, ones(8))
        outer.add_submodule("branch", inner)
        assert outcomes(outer) == ["2 parts"]
        assert "mm_parts" in text_of(inner)

    def test_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        gm = graph_of(lambda x, w: relu(x @ w) @ w[:64], ones(8, 192), self.W)
        with caplog.at_level(logging.DEBUG, "inductor_frontend.record.split_matmuls"):
            outcomes(gm)
        assert caplog.messages == [
            "matmul mm [8, 192] x [192, 64]: 2 parts",
            "matmul mm_1 [8, 64] x [64, 64]: no two parts are long enough and fit 132 multiprocessors with 1 block(s)",
            "1 of 2 matmuls are split",
        ]


class TestNumbers:
    @pytest.mark.parametrize(
        ("function", "sizes"),
        [
            (lambda x, w: relu(x @ w), ((8, 192), (192, 64))),
            (lambda x, w: (x @ w.t()).tanh(), ((9, 768), (100, 768))),
            (lambda x, w: relu(x.t() @ w.t()), ((768, 64), (64, 768))),
            (lambda x, w: relu(x[2:, 16:208] @ w[:, 3:67]), ((10, 230), (192, 70))),
            (lambda b, x, w: relu(torch.addmm(b, x, w)), ((64,), (8, 1152), (1152, 64))),
            (lambda b, x, w: torch.addmm(b, x, w).sum(1), ((8, 64), (8, 480), (480, 64))),
            (lambda b, x, w: relu(torch.addmm(b, x, w)), ((8, 1), (8, 480), (480, 64))),
            (lambda a, x, v, w: relu(torch.addmm(x @ v, x, w)) + a, ((8, 64), (8, 192), (192, 64), (192, 64))),
        ],
    )  # fmt: skip
    def test_are_those_of_the_whole_matmul(
        self, function: Function, sizes: tuple[tuple[int, ...], ...]
    ) -> None:
        generator = torch.Generator().manual_seed(0)
        args = [torch.randn(*size, generator=generator) for size in sizes]
        gm = graph_of(function, *args)
        assert all("parts" in one for one in outcomes(gm))
        torch.testing.assert_close(gm(*args), function(*args), rtol=1e-4, atol=1e-4)
        self.check_fakes(gm, args)

    @staticmethod
    def check_fakes(gm: fx.GraphModule, args: list[Tensor]) -> None:
        class Check(fx.Interpreter):
            def run_node(self, node: fx.Node) -> Any:  # Any: of the interpreter
                result = super().run_node(node)
                if node.op == "call_function" and isinstance(result, Tensor):
                    fake = node.meta["val"]
                    assert (fake.shape, fake.stride(), fake.dtype) == (
                        result.shape,
                        result.stride(),
                        result.dtype,
                    )
                return result

        Check(gm).run(*args)


def called(program: ir.Program) -> list[str]:
    return [op.target for op in program.main.ops_of(ir.CallExtern)]


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256), nn.LayerNorm(256)).eval()


class TestCaptures:
    X = torch.randn(16, 256)

    def test_for_a_gpu(self) -> None:
        artifact = capture(layers(), (self.X,), target="cuda:sm_90", options=SPLIT)
        assert called(artifact.program) == ["aten::bmm.out", "aten::bmm.out"]
        text = print_program(artifact.program)
        assert "= alloc f32[2, 16, 512]" in text
        assert "= alloc f32[5, 16, 256]" not in text
        (choice,) = [c for c in explain_artifact(artifact, ()).choices if "matmuls" in c.subject]
        assert choice.why == "the capture's option matmuls='split': 2 of 2 matmuls are sums of parts"
        assert [(c.name, c.chosen) for c in choice.candidates] == [
            ("[16, 256] x [256, 512]: 2 parts", True),
            ("[16, 512] x [512, 256]: 4 parts", True),
        ]

    def test_no_kernel_more_than_with_whole_matmuls(self) -> None:
        whole, split = (
            capture(layers(), (self.X,), target="cuda:sm_90", options=options).program
            for options in (None, SPLIT)
        )
        assert called(whole) == ["aten::mm.out", "aten::addmm.out"]
        assert len(split.kernels) == len(whole.kernels) == 2

    def test_as_many_parts_as_the_gpu_has_room_for(self) -> None:
        """The number of parts is limited by one multiprocessor for each block."""
        few = capture(
            layers(),
            (self.X,),
            target="cuda:sm_86",
            options=CaptureOptions(matmuls="split", gpu=replace(DEVICES["sm_86"], multi_processor_count=9)),
        )
        assert called(few.program)[1] == "aten::bmm.out"
        assert "= alloc f32[2, 16, 256]" in print_program(few.program)
        assert "aten::bmm.out" not in called(few.program)[:1]

    def test_in_a_branch(self) -> None:
        first, second = layers(), layers()

        class Branches(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.second = first, second

            def forward(self, x: Tensor, p: Tensor) -> Any:
                return torch.cond(p, self.first, self.second, (x,))

        artifact = capture(Branches(), (self.X, torch.tensor(True)), target="cuda:sm_90", options=SPLIT)
        assert print_program(artifact.program).count("call aten::bmm.out") == 4

    def test_attention_takes_a_whole_matmul(self) -> None:
        def attention(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
            q, k, value = (x @ w).view(1, 16, 3, 4, 64).permute(2, 0, 3, 1, 4)
            y: Tensor = scaled_dot_product_attention(q, k, value).transpose(1, 2).reshape(16, 256)
            return relu(linear(y, v))

        args = (self.X, torch.randn(256, 768), torch.randn(256, 256))
        program = capture(attention, args, target="cuda:sm_90", options=SPLIT).program
        assert [name for name in called(program) if "mm" in name] == ["aten::mm.out", "aten::bmm.out"]

    def test_a_cpu_has_whole_matmuls(self) -> None:
        model = layers()
        whole, split = (capture(model, (self.X,), options=options).program for options in (None, SPLIT))
        assert print_program(split) == print_program(whole)

    def test_computes_what_eager_does(self, monkeypatch: pytest.MonkeyPatch, equals_eager: Check) -> None:
        """Runs on a CPU; the rule receives the number of multiprocessors of a GPU."""
        split = partial(split_matmuls, multiprocessors=lambda device: 132)
        monkeypatch.setattr(lowering, "split_matmuls", split)
        model = layers()
        artifact = capture(model, (self.X,), options=SPLIT)
        assert called(artifact.program) == ["aten::bmm.out", "aten::bmm.out"]
        equals_eager(artifact, model, self.X)

    def test_a_pass_of_the_user_runs_before(self) -> None:
        targets: list[str] = []

        class Seen(CustomGraphPass):
            def __call__(self, graph: fx.Graph) -> None:
                targets.extend(str(n.target) for n in graph.nodes if "mm" in str(n.target))

            def uuid(self) -> Any:
                return "seen"

        with inductor_config.patch(post_grad_custom_post_pass=Seen()):
            program = capture(layers(), (self.X,), target="cuda:sm_90", options=SPLIT).program
        assert len(targets) == 2
        assert not any("bmm" in name for name in targets)
        assert called(program) == ["aten::bmm.out", "aten::bmm.out"]

    def test_as_an_option_of_the_backend(self) -> None:
        assert BackendOptions.parse({"matmuls": "split"}).capture.matmuls == "split"

    def test_keys_have_the_multiprocessors(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert not [line for line in option_lines(CaptureOptions()) if line.startswith("multiprocessors")]
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: DEVICES["sm_80"])
        assert "multiprocessors [108]" in list(option_lines(SPLIT))
