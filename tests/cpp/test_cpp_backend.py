"""torch.compile with the emitter `cpp`: whole calls in C++, forward and backward, as with the emitter
`python`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import cpp_wrapper
from cpp_wrapper import EmitError
from cpp_wrapper.library.python import LoadedProgram
from cpp_wrapper.settings import read_settings
from inductor_frontend import capture
from tests.common.torch_versions import since
from tests.cpp.cpp_case import FAST
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ExecutionError

# Any in this file: functions of any kind, as torch.compile returns them
IN_PYTHON = replace(FAST, python_operators=True)
COMPILED: list[LoadedProgram] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched(cpp_wrapper.CppEmitter):
    """Captures its compiled graphs."""

    def compile(self, artifact: Artifact, guarded: ir.Guarded = ir.NOT_GUARDED) -> LoadedProgram:
        """As the emitter."""
        COMPILED.append(cpp_wrapper.CppEmitter.compile(self, artifact, guarded))
        return COMPILED[-1]


@pytest.fixture
def backend() -> Callable[..., Any]:
    """`torch.compile` with the emitter."""
    COMPILED.clear()
    torch._dynamo.reset()
    options: dict[str, Any] = {"emitter": Watched(options=IN_PYTHON), "cache": False}

    def compiled(function: Callable[..., Any], **choices: Any) -> Any:
        return torch.compile(function, backend="wrapper_ir", options=options, **choices)

    return compiled


def _trained(model: torch.nn.Module, call: Callable[[Tensor], Tensor], x: Tensor) -> list[Tensor]:
    model.zero_grad()
    torch.manual_seed(3)
    loss = call(x).square().mean()
    torch.autograd.backward(loss)
    return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


@pytest.mark.slow
def test_training_is_that_of_the_emitter_python(backend: Callable[..., Any]) -> None:
    layers = (torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Dropout(0.2))
    model = torch.nn.Sequential(*layers, torch.nn.Linear(16, 4))
    x = torch.randn(5, 8)
    found = _trained(model, backend(model), x)
    assert len(COMPILED) == 2  # forward and backward
    torch._dynamo.reset()
    want = _trained(model, torch.compile(model, backend="wrapper_ir", options={"cache": False}), x)
    assert all(torch.equal(a, b) for a, b in zip(found, want, strict=True))


def test_shapes_that_change_writes_and_branches(backend: Callable[..., Any]) -> None:
    def function(x: Tensor, state: Tensor) -> tuple[Tensor, int]:
        state.add_(x.sum(0))
        y = torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a * 2, (x,))
        return y.relu(), x.shape[0]

    compiled = backend(function, dynamic=True)
    mine, theirs = torch.zeros(4), torch.zeros(4)
    for rows in (3, 5, 9):
        x = torch.randn(rows, 4)
        found, want = compiled(x, mine), function(x, theirs)
        torch.testing.assert_close(found, want)
        torch.testing.assert_close(mine, theirs)
    assert len(COMPILED) == 1


class Refused(Exception):
    """An error of a user."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


@torch.library.custom_op("cpp_backend::checked", mutates_args=())
def checked(x: Tensor, name: str) -> Tensor:
    """Raises the error of this name if `x` contains a negative number."""
    if bool((x < 0).any()):
        raise Refused("said by the operator", 3) if name == "Refused" else KeyError("said by the operator")
    return x * 2


@checked.register_fake
def _(x: Tensor, name: str) -> Tensor:
    return torch.empty_like(x)


def test_operators_of_python_run_and_raise_what_they_raise(backend: Callable[..., Any]) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return checked(x.sin(), "KeyError") + 1, torch.linalg.cholesky(x)

    compiled, x = backend(function), torch.eye(3)
    torch.testing.assert_close(compiled(x), function(x))
    if not since("2.13"):  # torch passes a library nothing of an operator's error
        with pytest.raises(ExecutionError, match=r"WIR927.*cpp_backend::checked failed"):
            compiled(-x)
        return
    with pytest.raises(KeyError, match="said by the operator") as caught:
        compiled(-x)
    assert any("WIR927" in note and "cpp_backend" in note for note in caught.value.__notes__)
    with pytest.raises(Refused, match="said by the operator"):  # torch passes only the name of its class
        backend(lambda x: checked(x, "Refused"))(-x)
    with pytest.raises(vars(torch.linalg)["LinAlgError"], match="not positive-definite"):
        compiled(torch.zeros(3, 3))


def test_numbers_that_only_python_passes(backend: Callable[..., Any]) -> None:
    """The dispatcher accepts no Scalar: an operator of the loader accepts a tensor instead."""

    def function(x: Tensor, ends: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        most = torch.segment_reduce(x, "max", offsets=ends, initial=1)
        return most, torch.addmm(c, c, c, alpha=2 + 1j, beta=0.5)

    inputs = (torch.randn(5), torch.tensor([0, 2, 5]), torch.randn(3, 3, dtype=torch.complex64))
    torch.testing.assert_close(backend(function)(*inputs), function(*inputs))


def test_operators_of_python_are_refused_elsewhere() -> None:
    artifact = capture(lambda x: checked(x, "KeyError"), (torch.ones(2),))
    with pytest.raises(EmitError, match=r"CPP502.*exists in Python only"):
        cpp_wrapper.emit(artifact)
    with pytest.raises(EmitError, match="CPP502"):
        cpp_wrapper.EMITTER.emit(artifact)
    assert "cpp_backend::checked" in str(cpp_wrapper.emit(artifact, options=IN_PYTHON))


def test_graphs_on_a_cpu_change_nothing() -> None:
    """There is no device to capture on; `test_cpp_graphs_on_gpu.py` covers one."""
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    options: dict[str, Any] = {"emitter": cpp_wrapper.CppEmitter(options=IN_PYTHON), "cuda_graphs": 4}
    compiled = torch.compile(
        model, backend="wrapper_ir", options={**options, "cache": False, "on_unsupported": "error"}
    )
    for _ in range(3):
        x = torch.randn(3, 4)
        torch.testing.assert_close(_trained(model, compiled, x), _trained(model, model, x))


def test_programs_built_together_are_found() -> None:
    alpha = random.random()  # no cache has them
    functions = [partial(torch.addmm, alpha=alpha), partial(torch.addmm, beta=alpha)]
    artifacts = [capture(function, (torch.ones(4, 4),) * 3) for function in functions]
    settings = read_settings()
    cpp_wrapper.CppEmitter(options=FAST, settings=settings).build_together(artifacts)
    finding = cpp_wrapper.CppEmitter(options=FAST, settings=replace(settings, compiler="missing"))
    x, y, z = torch.randn(3, 4, 4)
    for function, artifact in zip(functions, artifacts, strict=True):
        torch.testing.assert_close(finding.compile(artifact)(x, y, z), function(x, y, z))
