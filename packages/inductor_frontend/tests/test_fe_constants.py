"""Names, kinds and shared bytes of the constants that a capture declares."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import inductor_frontend
import py_wrapper
import wrapper_ir
from wrapper_ir import ir


class Tied(nn.Module):
    """Two layers with one weight, and buffers over one tensor: two overlap, one does not."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        self.b.weight = self.a.weight
        table = torch.randn(100)
        self.register_buffer("u", table[3:67].view(8, 8))
        self.register_buffer("v", table[10:18])
        self.register_buffer("far", table[80:88])
        self.register_buffer("unsaved", torch.randn(8), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        u, v, far, unsaved = (self.get_buffer(n) for n in ("u", "v", "far", "unsaved"))
        y: Tensor = self.a(x) @ u + self.b(x) * v + unsaved + far
        return y


def test_tied_and_overlapping(tmp_path: Path) -> None:
    model, x = Tied(), torch.randn(2, 8)
    artifact = inductor_frontend.capture(model, (x,))
    program = artifact.program
    weight = program.constant_named("a.weight")
    assert weight is program.constant_named("b.weight")
    assert weight.names == ("a.weight", "b.weight")
    assert weight.kind is ir.ConstantKind.PARAMETER
    u, v, far = (program.constant_named(n) for n in ("u", "v", "far"))
    assert u.kind is ir.ConstantKind.BUFFER
    assert u.storage == v.storage != ""
    assert (v.offset - u.offset, u.offset % 64) == (28, 12)  # each stays aligned as it is in memory
    assert not far.storage  # it shares no bytes
    assert program.constant_named("unsaved").kind is ir.ConstantKind.BUFFER
    assert artifact.constants[u.storage].nbytes == 12 + 64 * 4
    wrapper_ir.save(artifact, tmp_path / "m.wir")
    want = model(x)
    for form in (artifact, wrapper_ir.load(tmp_path / "m.wir")):
        torch.testing.assert_close(py_wrapper.compile(form)(x), want)


class Literal(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tensor([1.0, 2.0, 3.0])


def test_a_literal_is_no_state() -> None:
    program = inductor_frontend.capture(Literal(), (torch.randn(3),)).program
    assert all(c.kind is ir.ConstantKind.OTHER for c in program.constants)
