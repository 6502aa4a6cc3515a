"""`except` clauses that catch an error of a model catch it when it is compiled: eager mode, Inductor, and
every engine of ours, from torch.compile (compiled, and out of the cache) and from saved artifacts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._inductor import config as inductor_config

import fx_converter
import py_wrapper
import wrapper_ir
from fx_converter import FxOptions
from inductor_frontend import capture
from py_wrapper import TORCH_MACHINE, PyOptions
from tests.common.torch_versions import since
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ExecutionError
from wrapper_ir.operators.policy import ALL_OPERATORS
from wrapper_ir_runtime.interp import InterpOptions, call

LinAlgError: type[Exception] = vars(torch.linalg)["LinAlgError"]  # torch does not list it for type checkers


class OfTheModelError(Exception):
    """A class that only the model's author knows."""


RAISED: Mapping[str, type[Exception]] = {
    error.__name__: error
    for error in (
        RuntimeError, IndexError, KeyError, ValueError, TypeError, AssertionError, ZeroDivisionError, OverflowError,
        NotImplementedError, MemoryError, OSError, torch.OutOfMemoryError, LinAlgError,
        OfTheModelError,
    )
}  # fmt: skip
"""Raised by an operator."""


@torch.library.custom_op("error_types::failing", mutates_args=())
def failing(x: Tensor, name: str) -> Tensor:
    """Raises the error of this name if `x` contains a negative number."""
    if bool((x < 0).any()):
        raise RAISED[name]("said by the operator")
    return x.clone()


@failing.register_fake
def _(x: Tensor, name: str) -> Tensor:
    return torch.empty_like(x)


@dataclass(frozen=True)
class Case:
    """A model, valid and failing arguments, and the class that catches the failure in eager mode and, if
    different, with Inductor.
    """

    model: Callable[..., Any]
    good: tuple[Tensor, ...]
    bad: tuple[Tensor, ...]
    eager: type[Exception]
    stock: type[Exception] | None = None

    @property
    def caught(self) -> tuple[type[Exception], ...]:
        """The classes that have to catch it."""
        return (self.eager, self.stock or self.eager)


def checked(x: Tensor) -> Tensor:
    """Checks a number in a tensor."""
    n = x.max().item()
    torch._check(n < 5, lambda: "too large")  # type: ignore[no-untyped-call]  # torch's
    return x + n


CASES: Mapping[str, Case] = {
    **{
        f"operator {name}": Case(
            partial(lambda x, name: failing(x.sin(), name) + 1, name=name), (torch.ones(4),), (-torch.ones(4),), error
        )
        for name, error in RAISED.items()
    },
    "factorisation": Case(
        torch.linalg.cholesky, (torch.eye(3),), (-torch.eye(3),), LinAlgError
    ),
    "division": Case(
        lambda x, y: (x + 1) // y, (torch.tensor([4, 6]), torch.tensor([2, 3])), (torch.tensor([4, 6]), torch.tensor([2, 0])),
        RuntimeError,
    ),
    "index": Case(
        lambda x, i: x[i] + 1, (torch.randn(8), torch.tensor([3, 1])), (torch.randn(8), torch.tensor([3, 8])),
        IndexError, RuntimeError,
    ),
    "check": Case(checked, (torch.tensor([1, 2]),), (torch.tensor([1, 7]),), RuntimeError),
}  # fmt: skip

WITHOUT_ERRORS: Mapping[str, str] = {} if since("2.13") else {
    "factorisation": "torch.compile before 2.13, stock too, drops the check of a factorisation",
    "division": "kernels of Inductor before 2.13 divide by zero, which ends the process with SIGFPE",
}  # fmt: skip
"""Why a case has no error when it is compiled."""


def skip_without_error(name: str) -> None:
    """Skips the rest of a test where compiled code has no error to catch."""
    if name in WITHOUT_ERRORS:
        pytest.skip(WITHOUT_ERRORS[name])


@pytest.fixture(autouse=True)
def _scalars() -> Any:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        yield


def fails(function: Callable[..., Any], case: Case, *classes: type[Exception]) -> Exception:
    """The error of a call of `function`, which is of all `classes`."""
    with torch.no_grad():
        function(*case.good)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - its class is what is tested
            function(*case.bad)
    for kind in classes:
        assert isinstance(caught.value, kind), (type(caught.value), kind)
    return caught.value


@pytest.mark.parametrize("name", CASES)
def test_eager_and_stock(name: str) -> None:
    """The table matches eager mode and stock."""
    case = CASES[name]
    fails(case.model, case, case.eager)
    skip_without_error(name)
    torch._dynamo.reset()
    fails(torch.compile(case.model), case, case.stock or case.eager)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_torch_compile(emitter: str, name: str, tmp_path: Path) -> None:
    """Compiled, and out of the cache."""
    skip_without_error(name)
    case, options = CASES[name], {"emitter": emitter, "cache": str(tmp_path)}
    for _ in range(2):
        torch._dynamo.reset()
        function = torch.compile(case.model, backend="wrapper_ir", options=options)  # type: ignore[arg-type]  # invariant
        fails(function, case, *case.caught)


@pytest.mark.parametrize(
    ("backend", "options"),
    [("inductor", None), ("wrapper_ir", {"emitter": "python"}), ("wrapper_ir", {"emitter": "fx"})],
)
def test_checks_for_nan(backend: str, options: Any) -> None:
    """Failures that Inductor's option `nan_asserts` detects."""
    torch._dynamo.reset()
    bad = torch.full((4,), float("nan"))
    with inductor_config.patch(nan_asserts=True):
        fails(
            torch.compile(torch.sin, backend=backend, options=options),
            Case(torch.sin, (torch.ones(4),), (bad,), AssertionError),
            AssertionError,
        )


def saved(case: Case, folder: Path) -> Artifact:
    """The model's program, out of a file."""
    path = folder / "model.wir"
    wrapper_ir.save(capture(case.model, case.good), path)
    return wrapper_ir.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_saved_artifacts(name: str, tmp_path: Path) -> None:
    """Python, a graph and the interpreter.

    Each names the place, except graphs, for which torch's traceback shows it.
    """
    skip_without_error(name)
    case = CASES[name]
    artifact = saved(case, tmp_path)
    engines: dict[str, Callable[..., Any]] = {
        "python": py_wrapper.compile(artifact, PyOptions(operators=ALL_OPERATORS)),
        "fx": fx_converter.convert(artifact, FxOptions(operators=ALL_OPERATORS)),
        "interpreter": lambda *args: call(
            artifact, TORCH_MACHINE, args, options=InterpOptions(operators=ALL_OPERATORS)
        ),
    }
    for engine, function in engines.items():
        error = fails(function, case, *case.caught)
        if engine != "fx":
            said = "\n".join([str(error), *getattr(error, "__notes__", ())])
            assert "WIR92" in said
            assert ("program.py:" if engine == "python" else "in @main") in said


def test_calls_that_do_not_fit(tmp_path: Path) -> None:
    """Arguments too many and too few are a TypeError, as of any function.

    Other layouts an AssertionError, as with Inductor.
    """
    artifact = saved(Case(lambda x: x.sin(), (torch.ones(4),), (), TypeError), tmp_path)
    for function in (py_wrapper.compile(artifact), fx_converter.convert(artifact)):
        for args in ((), (torch.ones(4), torch.ones(4))):
            with pytest.raises(TypeError):
                function(*args)
        with pytest.raises(AssertionError) as caught:
            function(torch.ones(5))
        assert isinstance(caught.value, ExecutionError)


def test_what_cannot_be_compiled_is_a_runtime_error() -> None:
    """As for Inductor's own failures."""
    for backend in ("inductor", "wrapper_ir"):
        torch._dynamo.reset()
        with pytest.raises(RuntimeError):
            torch.compile(torch.sin, backend=backend, options={"no_such_option": 1})(torch.ones(2))
