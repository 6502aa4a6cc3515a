"""Static captures: the ops of the program, and its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from inductor_frontend import FRONTEND, CaptureOptions, capture
from wrapper_ir import ir
from wrapper_ir.plugins.registry import frontend, machine
from wrapper_ir.text import parse_program, print_program
from wrapper_ir_runtime.interp import call

Check = Callable[..., None]


def small_mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.ReLU())


def test_mlp_program() -> None:
    model = small_mlp()
    artifact = capture(model, (torch.randn(3, 8),))
    program = artifact.program
    kinds = [type(op) for op in program.main.body]
    assert kinds.count(ir.CallExtern) == 2
    assert kinds.count(ir.Launch) == 2
    reuses = [op for op in program.main.body if isinstance(op, ir.View) and op.mode is ir.ViewMode.REUSE]
    assert [op.source.name for op in reuses] == ["buf0", "buf2"]
    assert {c.value.name for c in program.constants} == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert not any(c.mutable for c in program.constants)
    assert [e.name for e in program.externs] == ["aten::addmm.out"]
    assert artifact.signature.bindings == (ir.ResultOutput(index=0),)


def test_mlp_text_round_trip() -> None:
    program = capture(small_mlp(), (torch.randn(3, 8),)).program
    assert parse_program(print_program(program)) == program


def test_in_place_kernels_can_be_left_out(equals_eager: Check) -> None:
    model, x = small_mlp(), torch.randn(3, 8)
    artifact = capture(model, (x,), options=CaptureOptions(inplace_kernels=False))
    assert not any(
        isinstance(op, ir.View) and op.mode is ir.ViewMode.REUSE for op in artifact.program.main.body
    )
    equals_eager(artifact, model, x)


def test_asserts_can_be_left_out() -> None:
    artifact = capture(small_mlp(), (torch.randn(3, 8),), options=CaptureOptions(layout_asserts=False))
    assert not any(isinstance(op, ir.AssertLayout) for op in artifact.program.main.body)


def test_equal_captures_give_equal_programs() -> None:
    model, x = small_mlp(), torch.randn(3, 8)
    assert capture(model, (x,)).program == capture(model, (x,)).program


def test_kernel_definitions_are_typed() -> None:
    (kernel,) = capture(lambda x, y: torch.sin(x) + y, (torch.randn(4), torch.randn(4))).program.kernels
    assert isinstance(kernel, ir.CppKernel)
    assert kernel.entry == "kernel"
    assert [p.access for p in kernel.params] == [ir.Access.READ, ir.Access.READ, ir.Access.WRITE]
    assert 'extern "C"' in kernel.source
    assert "async_compile" not in kernel.source


def test_one_kernel_source_called_twice_is_one_definition() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
    artifact = capture(model, (torch.randn(3, 8),))
    assert len(artifact.program.kernels) == 1


def test_functions_keyword_arguments_and_structures(equals_eager: Check) -> None:
    def function(x: torch.Tensor, *, scale: float, rest: dict[str, Any]) -> dict[str, Any]:
        return {"a": x * scale, "b": (rest["y"] + 1, None, "text", 3), "c": [x.size(0)]}

    x, rest = torch.randn(4), {"y": torch.randn(2)}
    artifact = capture(function, (x,), {"scale": 2.0, "rest": rest})
    equals_eager(artifact, function, x, scale=2.0, rest=rest)


def test_exported_program(equals_eager: Check) -> None:
    model, x = small_mlp(), torch.randn(3, 8)
    exported = torch.export.export(model, (x,))
    equals_eager(capture(exported, ()), model, x)


def test_entry_point_is_the_frontend() -> None:
    assert frontend("inductor") is FRONTEND
    artifact = frontend("inductor").capture(small_mlp(), (torch.randn(3, 8),))
    assert artifact.program.main.params[0].value.name == "input"


def test_no_tensor_inputs(equals_eager: Check) -> None:
    def function() -> torch.Tensor:
        return torch.ones(3) * 2

    equals_eager(capture(function, ()), function)


def test_complex_scalars(equals_eager: Check) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(x, x, x, alpha=complex(0.5, -2)) * (2 - 1j)

    x = torch.randn(3, 3, dtype=torch.complex64)
    equals_eager(capture(function, (x,)), function, x)


def test_sizes_stay_sizes(equals_eager: Check) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Size, torch.Tensor]:
        return torch.Size((2, 3)), x + 1

    x = torch.randn(3)
    artifact = capture(function, (x,))
    equals_eager(artifact, function, x)
    assert type(call(artifact, machine("torch"), (x,), {})[0]) is torch.Size


def test_shared_weights_are_one_constant(equals_eager: Check) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(10, 4)
            self.out = nn.Linear(4, 10, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> Any:
            return self.out(self.embed(ids))

    model, ids = Tied(), torch.tensor([1, 2, 3])
    artifact = capture(model, (ids,))
    assert len(artifact.program.constants) == 1
    equals_eager(artifact, model, ids)


def test_unused_weights_are_not_stored() -> None:
    class Partial(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used = nn.Linear(4, 4)
            self.unused = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> Any:
            return self.used(x)

    artifact = capture(Partial(), (torch.randn(2, 4),))
    assert set(artifact.constants) == {"used.weight", "used.bias"}


def test_concatenation_allocates_once(equals_eager: Check) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.sin(x), torch.cos(y)]) * 2

    x, y = torch.randn(2, 3), torch.randn(4, 3)
    artifact = capture(function, (x, y))
    equals_eager(artifact, function, x, y)
    kernel = artifact.program.kernels[0]
    assert (
        any(p.may_alias for p in kernel.params)
        or sum(isinstance(op, ir.AllocStorage) for op in artifact.program.main.body) == 1
    )
