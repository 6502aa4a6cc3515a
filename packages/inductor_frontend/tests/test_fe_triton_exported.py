"""Exported programs, captured for a GPU that this machine does not have."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from inductor_frontend import CaptureError, capture
from wrapper_ir.text import print_program

pytest.importorskip("triton", reason="programs for a GPU hold Triton kernels")

X = torch.randn(4, 16)


@pytest.mark.parametrize("rows", [None, torch.export.Dim("rows")])
def test_an_exported_program_is_moved(rows: object) -> None:
    """A copy is moved: the exported program stays on the CPU."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 8)

        def forward(self, input: torch.Tensor) -> torch.Tensor:
            steps = torch.arange(8, device=input.device).cumsum(0)
            return torch.add(self.linear(input), steps)

    model, shapes = Model().eval(), None if rows is None else ({0: rows},)
    exported = torch.export.export(model, (X,), dynamic_shapes=shapes)
    before = str(exported)
    moved = capture(exported, (X,), target="cuda:sm_90").program
    assert str(exported) == before
    assert "cpu" not in print_program(moved).partition("provenance")[0]
    whole = capture(model, (X,), target="cuda:sm_90", dynamic_shapes=shapes).program
    assert moved.kernels == whole.kernels
    assert [type(op) for op in moved.main.body] == [type(op) for op in whole.main.body]


def test_an_exported_program_with_operators_of_the_cpu() -> None:
    attention = torch.nn.functional.scaled_dot_product_attention
    q = torch.randn(1, 2, 8, 16)

    class Model(nn.Module):
        def forward(self, q: torch.Tensor) -> torch.Tensor:
            return attention(q, q, q)

    exported = torch.export.export(Model(), (q,))
    assert "efficient" in print_program(capture(exported, (q,), target="cuda:sm_90").program)
    table = torch.export.default_decompositions()
    cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    table.pop(cpu)  # type: ignore[no-untyped-call]  # torch's
    with pytest.raises(CaptureError, match="flash_attention_for_cpu") as caught:
        capture(exported.run_decompositions(table), (q,), target="cuda:sm_90")
    assert caught.value.code == "FE103"
