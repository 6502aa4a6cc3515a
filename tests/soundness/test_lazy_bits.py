"""Tensors with the conjugate or negative bit, whose memory holds other elements than they have: as state, as inputs that are
read, written and shared, as tangents. Plain bytes are stored; programs read memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cpp_wrapper
from inductor_frontend import capture
from inductor_frontend.errors import CaptureError
from inductor_frontend.lazy_bits import is_lazy, resolved
from tests.common.input_engines import engines
from wrapper_ir.errors import ExecutionError

pytestmark = pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")

Model = Callable[..., Any]
Make = Callable[[], Tensor]
EMITTERS = ("python", "fx", "cpp")


def numbers() -> Tensor:
    return torch.tensor([[1 + 2j, 2 - 1j, 3j], [4, 5 + 1j, 6 - 2j]])


def negated() -> Tensor:
    return numbers().conj().imag


def conjugated() -> Tensor:
    return numbers().conj()


def same(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted)
    pairs = zip(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(wanted), strict=True)
    assert all(a.is_neg() == b.is_neg() and a.is_conj() == b.is_conj() for a, b in pairs)


@pytest.mark.parametrize(
    "make",
    [
        negated,
        conjugated,
        lambda: negated()[:1].expand(4, 3),
        lambda: negated().t()[1:],
        lambda: torch._neg_view(conjugated()),
        lambda: negated()[:0],
    ],
    ids=["negated", "conjugated", "expanded", "window", "both", "empty"],
)
def test_resolved_tensors_keep_their_geometry(make: Make) -> None:
    lazy = make()
    plain = resolved(lazy)
    assert not is_lazy(plain)
    assert torch.equal(plain, lazy)
    geometry = [(x.size(), x.stride(), x.storage_offset()) for x in (lazy, plain)]
    assert geometry[0] == geometry[1]


# --- captured


class Holder(nn.Module):
    def __init__(self, function: Model, *state: Tensor) -> None:
        super().__init__()
        self.function = function
        for number, tensor in enumerate(state):
            if isinstance(tensor, nn.Parameter):
                self.register_parameter(f"b{number}", tensor)
            else:
                self.register_buffer(f"b{number}", tensor)

    def forward(self, x: Tensor) -> Any:
        return self.function(x, *self.parameters(), *self.buffers())


STATE: dict[str, tuple[Model, Callable[[], tuple[Tensor, ...]]]] = {
    "negated buffer": (lambda x, b: x + b, lambda: (negated(),)),
    "negated parameter": (lambda x, b: x + b, lambda: (nn.Parameter(negated(), requires_grad=False),)),
    "expanded": (lambda x, b: x + b, lambda: (negated()[:1].expand(2, 3),)),
    "conjugated": (lambda x, b: x + b, lambda: (conjugated(),)),
    "imaginary part": (lambda x, b: x + b.imag, lambda: (conjugated(),)),
    "beside its memory": (lambda x, b, c: x + b * c, lambda: _pair(negated(), torch._neg_view)),
    "beside its conjugate": (lambda x, b, c: x + b * c, lambda: _pair(conjugated(), torch.conj)),
}


def _pair(x: Tensor, view: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
    return x, view(x)


@pytest.mark.slow
@pytest.mark.parametrize("name", STATE)
def test_state_is_stored_as_plain_bytes(name: str, tmp_path: Path) -> None:
    function, make = STATE[name]
    x = torch.ones(2, 3)
    artifact = capture(Holder(function, *make()), (x,))
    runs = dict(engines(artifact, tmp_path))
    runs["cpp"] = _library(artifact, tmp_path)
    for engine, run in runs.items():
        found = run([x])
        torch.testing.assert_close(
            found[0] if isinstance(found, (tuple, list)) else found, function(x, *make()), msg=engine
        )


def _library(artifact: Any, folder: Path) -> Callable[[list[Any]], Any]:
    library = cpp_wrapper.load(cpp_wrapper.build(artifact, folder / "lib.so"))
    return lambda args: library(*args)


def test_state_that_is_written() -> None:
    def step(x: Tensor, b: Tensor) -> Tensor:
        b.add_(1)
        return x * b

    x = torch.ones(2, 3)
    artifact = capture(Holder(step, negated()), (x,))
    for run in engines_of_one_call(artifact):
        same(run(x), Holder(step, negated())(x))
    shared = negated()
    with pytest.raises(CaptureError, match="FE106"):
        capture(Holder(lambda x, b, c: step(x, b) + c, shared, torch._neg_view(shared)), (x,))


def engines_of_one_call(artifact: Any) -> list[Model]:
    import fx_converter
    import py_wrapper

    return [py_wrapper.compile(artifact), fx_converter.compile(artifact)]


LITERAL = negated()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "make"),
    [
        (lambda x: x.add_(1) * 2, negated),
        (lambda x: x.imag * 2 + x.real, conjugated),
        (lambda x: x + LITERAL, negated),
    ],
    ids=["negated", "conjugated", "literal"],
)
def test_inputs_of_a_capture(function: Model, make: Make, tmp_path: Path) -> None:
    """A program captured with a lazy example is one for plain tensors, and refuses others by name."""
    artifact = capture(function, (make(),))
    runs = dict(engines(artifact, tmp_path))
    runs["cpp"] = _library(artifact, tmp_path)
    for engine, run in runs.items():
        x, y = resolved(make()), resolved(make())
        found, wanted = run([x]), function(y)
        torch.testing.assert_close(
            found[0] if isinstance(found, (tuple, list)) else found, wanted, msg=engine
        )
        assert torch.equal(x, y), engine
        with pytest.raises(ExecutionError, match=r"pass x\.resolve_(neg|conj)"):
            pytest.fail(f"{engine} takes it: {run([make()])}")


# --- compiled

COMPILED: dict[str, tuple[Model, Make]] = {
    "negated": (lambda x: x + 1, negated),
    "conjugated": (lambda x: x + 1j, conjugated),
    "resolved": (lambda x: torch.view_as_real(x.resolve_conj()), conjugated),
    "imaginary part": (lambda x: x.imag + 1, conjugated),
    "product": (lambda x: x.t() @ x, negated),
    "expanded": (lambda x: x + 1, lambda: negated()[:1].expand(4, 3)),
    "offset": (lambda x: x + 1, lambda: negated()[1:]),
    "written": (lambda x: x.add_(1) * 2, negated),
    "conjugate written": (lambda x: x.add_(1j) * 2, conjugated),
    "written twice": (lambda x: (x.add_(1j), x.mul_(3))[1] * 2, conjugated),
    "view written": (lambda x: x[0].add_(1) + x[1], negated),
    "view returned": (lambda x: (x[1:], x.add_(1)), negated),
    "returned": (lambda x: (x, x.conj()), conjugated),
    "window": (lambda x: torch.as_strided(x, (2,), (2,), 3) + 1, negated),
    "asked": (lambda x: x + x.is_neg(), negated),
    "both bits": (lambda x: x + 1, lambda: torch._neg_view(conjugated())),
}


@pytest.mark.slow
@pytest.mark.parametrize("emitter", EMITTERS)
def test_inputs_of_compiled_functions(emitter: str) -> None:
    for (name, (function, make)), dynamic in itertools.product(COMPILED.items(), (False, True)):
        if dynamic and emitter != "python":
            continue
        torch._dynamo.reset()
        compiled = torch.compile(
            function,
            backend="wrapper_ir",
            dynamic=dynamic,
            options={"emitter": emitter, "on_unsupported": "error"},
        )
        for given in (make, make, lambda make=make: resolved(make())):
            x, y = given(), given()
            try:
                same(compiled(x), function(y))
                same(x, y)
            except AssertionError as error:
                raise AssertionError(f"{name}, dynamic={dynamic}") from error


@pytest.mark.slow
def test_functions_out_of_the_cache() -> None:
    for _ in range(2):
        torch._dynamo.reset()
        x, y = negated(), negated()
        same(torch.compile(lambda x: x.add_(1) * 3, backend="wrapper_ir")(x), y.add_(1) * 3)
        same(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("emitter", EMITTERS)
def test_state_of_compiled_models(emitter: str) -> None:
    def step(x: Tensor, b: Tensor) -> Tensor:
        b.add_(1)
        return x * b

    for make in (negated, conjugated):
        torch._dynamo.reset()
        mine, theirs, x = Holder(step, make()), Holder(step, make()), torch.ones(2, 3)
        compiled = torch.compile(mine, backend="wrapper_ir", options={"emitter": emitter})
        for _ in range(2):
            same(compiled(x), theirs(x))
            same(mine.b0, theirs.b0)


@pytest.mark.parametrize(
    "function",
    [lambda x, y: x.add_(1) * y, lambda x, y: x * y.add_(1), lambda x, y: x * y],
    ids=["first", "second", "none"],
)
@pytest.mark.parametrize("make", [negated, conjugated])
def test_inputs_that_share_memory(function: Model, make: Make) -> None:
    """Autograd would make views of one base of them, and lose the bits; such a function stays in eager mode."""
    view = torch._neg_view if make is negated else torch.conj
    torch._dynamo.reset()
    x, y = make(), make()
    compiled = torch.compile(function, backend="wrapper_ir", options={"on_unsupported": "inductor"})
    same(compiled(x, view(x)), function(y, view(y)))
    same(x, y)
    torch._dynamo.reset()
    strict = torch.compile(function, backend="wrapper_ir", options={"on_unsupported": "error"})
    with pytest.raises(Exception, match=r"FE106(.|\n)*resolve_neg"):
        strict(x, view(x))


@pytest.mark.slow
@pytest.mark.parametrize("emitter", EMITTERS)
def test_tangents(emitter: str) -> None:
    """`torch.complex` hands the imaginary part of a conjugate back: a tangent of one element is as dense as any other."""

    def model(x: Tensor, w: Tensor) -> Tensor:
        return x * w + 1

    def loss(function: Model, w: Tensor) -> Tensor:
        y = function(torch.full((1,), 3.0), w)
        return (torch.complex(torch.ones(1), y).conj() * torch.tensor([2 + 1j])).abs().square().sum()

    found, wanted = (torch.ones(1, requires_grad=True) for _ in range(2))
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="wrapper_ir", options={"emitter": emitter})
    for function, w in ((compiled, found), (model, wanted)):
        torch.autograd.backward(loss(function, w))
        torch.autograd.backward(function(torch.full((1,), 3.0), w), torch.tensor([1 + 2j]).conj().imag)
    torch.testing.assert_close(found.grad, wanted.grad)


@pytest.mark.slow
@pytest.mark.parametrize("make", [negated, conjugated])
def test_inputs_that_are_saved(make: Make) -> None:
    found, wanted = (torch.ones(2, 3, requires_grad=True) for _ in range(2))
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, w: x * w * w, backend="wrapper_ir")
    torch.autograd.backward(compiled(make(), found).abs().sum())
    torch.autograd.backward((make() * wanted * wanted).abs().sum())
    torch.testing.assert_close(found.grad, wanted.grad)
