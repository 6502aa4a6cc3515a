"""Compiled programs that are pickled, copied, wrapped and inspected: refused with a code, or like functions."""

from __future__ import annotations

import copy
import functools
import gc
import importlib
import inspect
import io
import pickle
import sys
import weakref
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fx_converter
import inductor_frontend
import py_wrapper
from py_wrapper import PyOptions
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import CopyError

# Any in this file: compiled programs of every kind
X = torch.arange(4.0)
HINT = r"hint: wrapper_ir.save stores the artifact"


class Model(nn.Module):
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor, scale: Tensor | None = None, *, shift: Tensor) -> Tensor:
        self.count += 1
        return x + shift + self.count


WAYS: dict[str, Callable[[Artifact], Any]] = {
    "python": py_wrapper.compile,
    "python, persistent": lambda artifact: py_wrapper.compile(artifact, PyOptions(persistent_buffers=True)),
    "fx": fx_converter.compile,
}
Pickler: Any = vars(pickle)["_Pickler"]  # the one in Python, which the stubs omit
PICKLERS: dict[str, Callable[[Any], object]] = {
    "pickle": pickle.dumps,
    "pickle in Python": lambda program: Pickler(io.BytesIO()).dump(program),
    "torch.save": lambda program: torch.save({"program": program}, io.BytesIO()),
    "multiprocessing": ForkingPickler.dumps,
}


class Holder(nn.Module):
    def __init__(self, program: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(X)
        self.program = program


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return inductor_frontend.capture(Model(), (X,), {"shift": X})


@pytest.fixture(params=WAYS)
def program(artifact: Artifact, request: pytest.FixtureRequest) -> Any:
    return WAYS[request.param](artifact)


@pytest.mark.parametrize("name", PICKLERS)
def test_pickling_is_refused(program: Any, name: str) -> None:
    for value in (program, Holder(program), functools.partial(program, X)):
        with pytest.raises(CopyError, match=rf"\[WIR940\] .* pickled\n *{HINT}") as caught:
            PICKLERS[name](value)
        assert isinstance(caught.value, TypeError)


def test_deep_copies_are_refused(program: Any) -> None:
    for value in (program, Holder(program), [program]):
        with pytest.raises(CopyError, match=rf"\[WIR940\] .* copied\n *{HINT}"):
            copy.deepcopy(value)


def test_shallow_copies_are_the_same_program(program: Any) -> None:
    copied = copy.copy(program)
    assert copied == program
    assert hash(copied) == hash(program)
    assert copy.copy(Holder(program)).program is program
    first = program(X, shift=X)
    torch.testing.assert_close(copied(X, shift=X), first + 1)
    torch.testing.assert_close(copied.boxed([X, X])[-1], first + 2)


def test_modules_that_are_imported_are_pickled_like_functions(
    artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    py_wrapper.write(artifact, tmp_path, PyOptions(name="emitted_and_imported"))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("emitted_and_imported")
    try:
        for dumps in (pickle.dumps, ForkingPickler.dumps):
            assert pickle.loads(dumps(module.forward)) == module.forward
        assert copy.deepcopy(module.forward) == module.forward
    finally:
        del sys.modules["emitted_and_imported"]
    with pytest.raises(CopyError, match="WIR940"):
        pickle.dumps(module.forward)


def test_programs_are_inspected_like_functions(artifact: Artifact) -> None:
    program: Any = py_wrapper.compile(artifact)

    @functools.wraps(program)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return program(*args, **kwargs)

    functions: tuple[Any, ...] = program, wrapped
    for function in functions:
        assert str(inspect.signature(function)) == "(x, scale=None, *, shift)"
        assert function.__name__ == "forward"
        assert "signature" in function.__doc__
        assert function.boxed is program.boxed
    torch.testing.assert_close(wrapped(X, shift=X) + 1, program(X, None, shift=X))


@pytest.mark.parametrize("way", [py_wrapper.compile, fx_converter.compile])
def test_programs_are_freed(artifact: Artifact, way: Callable[[Artifact], Any]) -> None:
    program = way(artifact)
    function = weakref.ref(program.__func__)
    del program
    gc.collect()
    assert function() is None
