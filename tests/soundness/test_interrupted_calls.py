"""Ctrl-C at each point of a call where Python looks for signals leaves grad mode, device and stream as they
were, and the next call works.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import fx_converter
import py_wrapper
import wrapper_ir_torch
from fx_converter import FxOptions
from fx_converter.targets import placement
from py_wrapper import PyOptions
from tests.common.input_engines import artifact_of
from wrapper_ir import ir, parse_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir_torch import DeviceFunctions, device_functions

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
    returned. There the interpreter calls handlers of signals. In `__del__`, Python ignores errors.
    """

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if event in ("call", "c_return") and frame.f_code.co_name != "__del__":
            self.left -= 1
            if self.left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt


def _interrupted(call: Callable[[], Any], check: Callable[[int], None]) -> int:
    """Calls with an interrupt at each event in turn, and checks the state after each. Returns the number of
    events.

    The error is referenced until the check: what only its end would restore is wrong until then.
    """
    for at in range(10_000):
        interrupt = None
        try:
            sys.setprofile(_Interrupt(at))
            call()
        except KeyboardInterrupt as error:
            interrupt = error
        finally:
            sys.setprofile(None)
        check(at)
        if interrupt is None:
            return at
    raise AssertionError("the call does not end")


@pytest.mark.parametrize("name", CALLS)
def test_grad_mode_is_as_before(name: str) -> None:
    call = CALLS[name](artifact_of(TEXT))
    (want,) = call()

    def check(at: int) -> None:
        enabled = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        assert enabled, f"after {at} events"

    assert _interrupted(call, check) > 5
    (result,) = call()
    assert isinstance(result, Tensor)
    assert torch.equal(result, want)


STREAMS = """wir 0.5
target cuda:1 arch "sm_90"

func @main(%x: f32[4], %y: f32[4], %z: f32[4] @cuda:0) {
  copy %x, %y stream(1)
  copy %z, %y stream(2)
  copy %y, %x
  return %z
}
"""


class _Stream:
    def __init__(self, device: str) -> None:
        self.device_index = int(device.partition(":")[2])


class _Gpus:
    """Current devices and streams of a thread: what was set last. Functions in C restore them."""

    def __init__(self) -> None:
        self.log: list[Any] = [3]
        """Indices of devices, and streams with the indices of theirs, which become current with them."""
        self.functions = DeviceFunctions(
            current_device=self.device,
            set_device=self.log.append,
            restore_device=self.log.append,
            current_stream=lambda index: ((index, self.stream(index)),),
            enter_stream=lambda stream: self.log.append((stream.device_index, stream)),
            restore_stream=self.log.append,
        )

    def device(self) -> int:
        last = self.log[-1]
        index: int = last[0] if isinstance(last, tuple) else last
        return index

    def stream(self, index: int) -> object:
        streams = [entry[1] for entry in self.log if isinstance(entry, tuple) and entry[0] == index]
        return streams[-1] if streams else None


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> _Gpus:
    gpus = _Gpus()
    monkeypatch.setattr(wrapper_ir_torch, "device_functions", lambda kind: gpus.functions)
    monkeypatch.setattr(placement, "_functions", lambda device: gpus.functions)
    monkeypatch.setattr(placement, "_numbered", lru_cache(lambda device, stream: _Stream(device)))
    monkeypatch.setattr(torch.cuda, "Stream", _Stream)
    return gpus


GPU_CALLS: Mapping[str, Callable[[Artifact, ir.Guarded], Callable[..., Any]]] = {
    "python": lambda artifact, guarded: py_wrapper.compile(artifact, PyOptions(guarded=guarded)),
    "fx": lambda artifact, guarded: fx_converter.compile(artifact, FxOptions(guarded=guarded)),
    "fx, module": lambda artifact, guarded: fx_converter.convert(artifact, FxOptions(guarded=guarded)),
}


@pytest.mark.parametrize("name", GPU_CALLS)
def test_devices_and_streams_are_as_before(name: str, gpus: _Gpus) -> None:
    artifact = bare_artifact(parse_program(STREAMS))
    # tensors of the CPU replace the device's
    run = GPU_CALLS[name](artifact, ir.Guarded.all_inputs(artifact.program))
    visited: set[object] = set()

    def call() -> None:
        (z,) = run(torch.zeros(4), X.clone(), torch.zeros(4))
        assert torch.equal(z, X)

    def check(at: int) -> None:
        state = gpus.device(), gpus.stream(0), gpus.stream(1)
        visited.update(entry if isinstance(entry, int) else entry[0] for entry in gpus.log)
        gpus.log[:] = [3]
        assert state == (3, None, None), f"after {at} events"

    assert _interrupted(call, check) > 20
    assert visited == {0, 1, 3}
    call()


def test_functions_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[object] = []

    class Module:
        """The interface of a device that is not torch's."""

        def __init__(self, *value: object) -> None:
            self.value = value

        def __enter__(self) -> None:
            log.append(self.value)

        current_device = staticmethod(lambda: 2)
        current_stream = staticmethod(lambda index: f"stream of {index}")

    Module.device = Module.stream = Module  # type: ignore[attr-defined]  # its contexts
    monkeypatch.setattr(torch, "toy", Module, raising=False)
    functions = device_functions("toy")
    assert functions.current_device() == 2
    functions.set_device(1)
    functions.restore_device(2)
    before = functions.current_stream(1)
    functions.enter_stream("side")
    functions.restore_stream(*before)
    assert log == [(1,), (2,), ("side",), ("stream of 1",)]


def test_functions_of_devices_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[tuple[object, ...]] = []

    def function(*args: object) -> tuple[object, ...]:
        log.append(args)
        return args

    for name in ("getDevice", "exchangeDevice", "maybeExchangeDevice", "getCurrentStream", "setStream"):
        monkeypatch.setattr(torch._C, f"_cuda_{name}", partial(function, name), raising=False)
    functions = device_functions("cuda")
    functions.set_device(1)
    functions.restore_device(0)
    before = functions.current_stream(1)
    functions.enter_stream(SimpleNamespace(stream_id=5, device_index=1, device_type=1))
    functions.restore_stream(*before)
    assert log == [
        ("exchangeDevice", 1),
        ("maybeExchangeDevice", 0),
        ("getCurrentStream", 1),
        ("setStream", 5, 1, 1),
        ("setStream", "getCurrentStream", 1),
    ]
