"""Ctrl-C at each point of a call where Python looks for signals leaves grad mode as it was, and the next call
works.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor

import fx_converter
import py_wrapper
from fx_converter import FxOptions
from tests.common.input_engines import artifact_of
from wrapper_ir.artifact import Artifact

TEXT = """
extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[4]) {
  %r = call aten::neg(%x) : f32[4]
  return %r
}
"""
X = torch.arange(4.0)


def _called(module: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: module(X)


def _boxed(run: Callable[[list[Any]], Any]) -> Callable[[], Any]:
    return lambda: run([X])


CALLS: Mapping[str, Callable[[Artifact], Callable[[], Any]]] = {
    "python": lambda artifact: _boxed(py_wrapper.compile(artifact).boxed),
    "python, model": lambda artifact: _called(py_wrapper.compile(artifact)),
    "fx": lambda artifact: _boxed(fx_converter.compile(artifact).boxed),
    "fx, model": lambda artifact: _called(fx_converter.compile(artifact)),
    "fx, module": lambda artifact: _called(fx_converter.convert(artifact, FxOptions(convention="flat"))),
}


class _Interrupt:
    """Raises KeyboardInterrupt at one event of a call: where a function of Python's begins, or one of C has
    returned. There the interpreter calls handlers of signals.
    """

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if event in ("call", "c_return"):
            self.left -= 1
            if self.left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt


@pytest.mark.parametrize("name", CALLS)
def test_grad_mode_is_as_before(name: str) -> None:
    call = CALLS[name](artifact_of(TEXT))
    (want,) = call()
    for at in range(10_000):
        try:
            sys.setprofile(_Interrupt(at))
            call()
        except KeyboardInterrupt:
            pass
        else:
            break
        finally:
            sys.setprofile(None)
            enabled = torch.is_grad_enabled()
            torch.set_grad_enabled(True)
        assert enabled, f"after {at} events"
    assert at > 5
    (result,) = call()
    assert isinstance(result, Tensor)
    assert torch.equal(result, want)
