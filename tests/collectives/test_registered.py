"""Memory registered with a group: requests to the group's backend, on a machine without GPUs.

`test_registered_gpu.py` uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.fx.experimental.proxy_tensor import make_fx

import fx_converter
import py_wrapper
from fx_converter import FxOptions
from py_wrapper import TORCH_MACHINE
from tests.collectives.collective_cases import lonely_group
from tests.collectives.group_memory import BLOCK, DEVICE, SEGMENT, Backend, registered_artifact
from tests.common.compare import assert_same
from tests.common.forms import FORMS
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ExecutionError
from wrapper_ir_runtime.interp import Interpreter
from wrapper_ir_torch import REGISTERED_MEMORY, RegistrationCounts, find_group


def ways() -> dict[str, Callable[[Artifact], Callable[..., Any]]]:
    def graph(form: Any) -> Callable[[Artifact], Callable[..., Any]]:
        return lambda a: fx_converter.convert(a, FxOptions(kernel_calls=form))

    found: dict[str, Callable[[Artifact], Callable[..., Any]]] = {form: graph(form) for form in FORMS}
    return {"interpreter": lambda a: Interpreter(a, TORCH_MACHINE), "python": py_wrapper.compile, **found}


@pytest.mark.parametrize("way", ["interpreter", "python", *FORMS])
def test_memory_is_registered_once(way: str, backend: Backend, tmp_path: Path) -> None:
    """All calls use the same memory; the communicator is created first if no collective has created it."""
    run = ways()[way](registered_artifact())
    with lonely_group(tmp_path):
        for _ in range(3):
            assert_same(run(BLOCK), (BLOCK,))
        assert REGISTERED_MEMORY.counts("0", DEVICE) == RegistrationCounts(2, 48 + 96, 1, SEGMENT)
        assert backend.connected == [DEVICE]
        assert len({*map(id, backend.registered)}) == 1


def test_programs_with_the_same_ids_have_the_same_memory(backend: Backend, tmp_path: Path) -> None:
    with lonely_group(tmp_path):
        for make in ways().values():
            assert_same(make(registered_artifact())(BLOCK), (BLOCK,))
        assert REGISTERED_MEMORY.counts("0", DEVICE).tensors == 2


def test_a_group_that_ends_leaves_nothing(backend: Backend, tmp_path: Path) -> None:
    """Another group of the same name has separate memory, also while the first group's object is still
    referenced.
    """
    run, kept = py_wrapper.compile(registered_artifact()), []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        with lonely_group(tmp_path / str(number)):
            assert_same(run(BLOCK), (BLOCK,))
            assert REGISTERED_MEMORY.counts("0", DEVICE).tensors == 2
            kept.append(find_group("0"))
        assert REGISTERED_MEMORY.counts("0", DEVICE) == RegistrationCounts(0, 0, 0, 0)
    assert len({*map(id, backend.registered)}) == 2


def test_memory_of_a_living_group_is_given_back(backend: Backend, tmp_path: Path) -> None:
    run = py_wrapper.compile(registered_artifact())
    with lonely_group(tmp_path):
        assert_same(run(BLOCK), (BLOCK,))
        REGISTERED_MEMORY.release("0")
        assert backend.registered == []
        assert_same(run(BLOCK), (BLOCK,))
        assert len(backend.registered) == 2


def test_multicast_stays_off(backend: Backend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NCCL_NVLS_ENABLE")
    with lonely_group(tmp_path), pytest.raises(ExecutionError, match=r"WIR938.*multicast") as caught:
        py_wrapper.compile(registered_artifact())(BLOCK)
    assert "NCCL_NVLS_ENABLE=0" in str(caught.value)
    assert backend.registered == []


def test_a_group_that_registers_nothing(tmp_path: Path) -> None:
    with lonely_group(tmp_path), pytest.raises(ExecutionError, match=r"WIR938.*no backend on cuda:0"):
        py_wrapper.compile(registered_artifact())(BLOCK)


def test_a_graph_that_is_traced_again_keeps_the_call(backend: Backend, tmp_path: Path) -> None:
    module = fx_converter.convert(registered_artifact(), FxOptions(kernel_calls="hop", convention="flat"))
    fx_converter.save(module, tmp_path / "graph.wir")
    with lonely_group(tmp_path):
        again = make_fx(module, tracing_mode="symbolic")(BLOCK)
        assert [n.name for n in again.graph.nodes if "empty_registered" in str(n.target)]
        assert backend.registered == []
        assert_same(fx_converter.load(tmp_path / "graph.wir")(BLOCK), (BLOCK,))
        assert REGISTERED_MEMORY.counts("0", DEVICE).tensors == 2
