"""Native code takes over the check of inputs' storages in programs whose own kernels bring none."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

import fx_converter
import py_wrapper
from cpp_wrapper.kernels.runtime import KERNEL_RUNTIME
from fx_converter import FxOptions
from tests.common.input_engines import artifact_of
from tests.common.storage_cases import HELD, SHORT, cut
from wrapper_ir.analysis.input_facts import StorageInput
from wrapper_ir.errors import ArgumentError
from wrapper_ir.plugins.protocols import StorageChecker
from wrapper_ir_runtime import StorageGuard, native_checks
from wrapper_ir_runtime.native_checks import CALLS_BEFORE_NATIVE

PROGRAM = """extern "aten::neg(Tensor self) -> Tensor"

func @main(%x: f32[4, 2]) {
  %y = call aten::neg(%x) : f32[4, 2]
  drop %x
  return %y
}
"""
WANTED = StorageInput(name="x", nbytes=None, itemsize=4)


def test_native_code_and_python_agree() -> None:
    assert isinstance(KERNEL_RUNTIME, StorageChecker)
    native = KERNEL_RUNTIME.storage_check()
    for name, make in {**HELD, **SHORT}.items():
        x = make()
        python = StorageGuard((), StorageInput(name="x", nbytes=None, itemsize=x.element_size()))
        assert native(x) is python.holds(x) is (name in HELD), name


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def _is_seen(run: Callable[[list[Any]], Any], seen: list[Any]) -> bool:
    run([torch.ones(4, 2)])
    return bool(seen)


def test_a_program_that_is_called_often(monkeypatch: pytest.MonkeyPatch) -> None:
    native = KERNEL_RUNTIME.storage_check()
    seen: list[Any] = []

    def found() -> Callable[..., bool]:
        def watched(*tensors: Any) -> bool:
            seen.append(tensors)
            return native(*tensors)

        return watched

    monkeypatch.setattr(native_checks, "_native_check", found)
    graph = fx_converter.convert(artifact_of(PROGRAM), FxOptions(kernel_calls="hop"))
    runs: list[Callable[[list[Any]], Any]] = [
        py_wrapper.compile(artifact_of(PROGRAM)).boxed,
        fx_converter.compile(artifact_of(PROGRAM)).boxed,
        lambda args: graph(*args),
    ]
    for run in runs:
        seen.clear()
        for _ in range(CALLS_BEFORE_NATIVE + 1):
            run([torch.ones(4, 2)])
        _wait(partial(_is_seen, run, seen))
        with pytest.raises(ArgumentError, match="a storage of at least 32 bytes, got one of 31"):
            run([cut(31)])


def test_what_cannot_be_had_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def storage_check(self) -> Callable[..., bool]:
            raise OSError("no compiler")

    asked: list[str] = []

    def broken(group: str, name: str) -> Broken:
        asked.append(name)
        return Broken()

    monkeypatch.setattr(native_checks, "plugin_names", lambda group: ("broken", "plain"))
    monkeypatch.setattr(native_checks, "plugin", broken)
    native_checks._native_check.cache_clear()
    guard = StorageGuard((), WANTED)
    for _ in range(CALLS_BEFORE_NATIVE + 1):
        assert guard.holds(torch.ones(2))
    _wait(lambda: len(asked) == 2)
    assert not guard.holds(cut(31))
    native_checks._native_check.cache_clear()
