"""Loops that torch's frontends refuse but its passes can create: handwritten graphs, passed to the
lowering."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from inductor_frontend import CaptureOptions, ConversionError
from inductor_frontend.record.lowering import LoweringRequest, recorded
from inductor_frontend.session import capture_session
from inductor_frontend.translate.finish import finish
from inductor_frontend.translate.program import BuildContext, build_program
from tests.control.control_ops import less, number, plus, times
from wrapper_ir import ir, print_program
from wrapper_ir.plugins.registry import machine
from wrapper_ir_runtime.interp import run

Body = Callable[..., tuple[Tensor, ...]]


def loop(body: Body, *, carried: int) -> ir.Program:
    """Returns a program that carries a counter and `carried` matrices while the counter is below `n`, and
    doubles the results."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    with mode:
        inputs = [torch.zeros((), dtype=torch.int64), *(torch.rand(2, 3) for _ in range(carried))]
        flat = [torch.zeros((), dtype=torch.int64), *inputs[1:], inputs[0]]
        root = nn.Module()
        root.test = make_fx(lambda i, *rest: less(i, rest[-1]))(*flat)
        root.body = make_fx(lambda i, *rest: (plus(i, number(1)), *body(*rest[:-1])))(*flat)
    graph = fx.Graph()
    n, *matrices = (graph.placeholder(f"x{k}") for k in range(carried + 1))
    begin = graph.call_function(torch.ops.flow.number.default, (0,))
    made = graph.call_function(
        torch.ops.higher_order.while_loop,
        (graph.get_attr("test"), graph.get_attr("body"), (begin, *matrices), (n,)),
    )
    results = [graph.call_function(operator.getitem, (made, k + 1)) for k in range(carried)]
    graph.output(tuple(graph.call_function(torch.ops.flow.times.default, (r, 2)) for r in results))
    request = LoweringRequest(gm=fx.GraphModule(root, graph), inputs=inputs)
    with capture_session(CaptureOptions()), recorded(request) as recording:
        translation = build_program(recording, BuildContext())
    return finish(translation.program, CaptureOptions()).program


def after(program: ir.Program, n: int, *matrices: Tensor) -> list[Tensor]:
    return list(run(program, [torch.tensor(n), *(m.clone() for m in matrices)], machine("torch")))


A, B = torch.rand(2, 3), torch.rand(2, 3)


@pytest.mark.parametrize("n", [0, 3])
def test_what_a_body_does_not_change_is_captured(n: int) -> None:
    """All trips use one tensor; its result is a copy."""
    program = loop(lambda y, z: (plus(y, z), z), carried=2)
    (op,) = [op for op in program.main.body if isinstance(op, ir.WhileLoop)]
    assert len(op.carried) == len(op.results) == 2
    assert len(op.captured) == 2
    y, z = after(program, n, A, B)
    torch.testing.assert_close(y, (A + n * B) * 2)
    torch.testing.assert_close(z, B * 2)


@pytest.mark.parametrize("n", [0, 3])
def test_what_a_body_writes_in_place_is_captured(n: int) -> None:
    """The loop's operand is its result."""
    program = loop(lambda y: (y.mul_(2),), carried=1)
    (op,) = [op for op in program.main.body if isinstance(op, ir.WhileLoop)]
    assert len(op.carried) == 1
    assert "copy" not in print_program(program)
    (y,) = after(program, n, A)
    torch.testing.assert_close(y, A * 2 ** (n + 1))


@pytest.mark.parametrize("n", [0, 2, 3])
def test_what_a_body_hands_to_another_place_is_copied(n: int) -> None:
    """Each trip owns its results: the loop frees carried values after the next trip."""
    program = loop(lambda y, z: (z, times(y, 2)), carried=2)
    y, z = A, B
    for _ in range(n):
        y, z = z, y * 2
    for got, want in zip(after(program, n, A, B), (y * 2, z * 2), strict=True):
        torch.testing.assert_close(got, want)


def test_one_tensor_in_two_places_is_copied() -> None:
    def body(y: Tensor, z: Tensor) -> Any:  # Any: a tuple of one tensor, twice
        total = plus(y, z)
        return total, total

    y, z = A, B
    for _ in range(2):
        y = z = y + z
    for got in after(loop(body, carried=2), 2, A, B):
        torch.testing.assert_close(got, y * 2)


def test_writing_to_an_operand_and_returning_another_is_refused() -> None:
    """Torch treats the operand as the result."""

    def body(y: Tensor) -> tuple[Tensor, ...]:
        y.mul_(2)
        return (times(y, 3),)

    with pytest.raises(ConversionError, match=r"FE307.*writes to what it carries, and returns other"):
        loop(body, carried=1)
