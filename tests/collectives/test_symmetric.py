"""Symmetric memory: requests to torch's allocator, on a machine without GPUs.

`test_symmetric_gpu.py` uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx

import fx_converter
import py_wrapper
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from py_wrapper import TORCH_MACHINE
from tests.collectives.collective_cases import lonely_group
from tests.collectives.group_memory import LARGE, ROW, WEIGHT, Allocator, symmetric_artifact
from tests.common.compare import assert_same
from tests.common.forms import FORMS
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import NotSupportedError
from wrapper_ir_runtime.interp import Interpreter
from wrapper_ir_torch import SYMMETRIC_MEMORY


def emitters() -> dict[str, Callable[[Artifact], Callable[..., Any]]]:
    def graph(form: KernelCalls) -> Callable[[Artifact], Callable[..., Any]]:
        return lambda a: fx_converter.convert(a, FxOptions(kernel_calls=form))

    return {"python": py_wrapper.compile, **{form: graph(form) for form in FORMS}}


@pytest.mark.parametrize("emitter", ["python", *FORMS])
def test_the_allocator_is_asked_once_for_each_id(emitter: str, allocator: Allocator, tmp_path: Path) -> None:
    run = emitters()[emitter](symmetric_artifact(LARGE))
    whole = ((3, 4), (4, 1), torch.float32, "cuda:0", "0", LARGE)
    pool = ((10,), (1,), torch.float32, "cuda:0", "0", 3)
    with lonely_group(tmp_path):
        for _ in range(2):
            assert_same(run(ROW, WEIGHT), (WEIGHT, torch.zeros(5)))
    assert allocator.asked == [whole, pool]


def test_memory_that_is_released_has_no_holder(allocator: Allocator, tmp_path: Path) -> None:
    """Released memory has no owner while the group lives: torch reuses the memory of an id when its earlier
    tensor is freed.
    """
    run = py_wrapper.compile(symmetric_artifact())
    with lonely_group(tmp_path):
        for turn in range(2):
            run(ROW, WEIGHT)
            assert (allocator.living, len(allocator.asked)) == (2, 2 * turn + 2)
            SYMMETRIC_MEMORY.release("0")
            assert allocator.living == 0


def test_the_interpreter_asks_for_bytes(allocator: Allocator, tmp_path: Path) -> None:
    with lonely_group(tmp_path):
        assert_same(Interpreter(symmetric_artifact(), TORCH_MACHINE)(ROW, WEIGHT), (WEIGHT, torch.zeros(5)))
    asked = [((48,), (1,), torch.uint8, "cuda:0", "0", 7), ((40,), (1,), torch.uint8, "cuda:0", "0", 3)]
    assert allocator.asked == asked


@pytest.mark.parametrize("form", FORMS)
def test_an_operator_of_the_graph(form: KernelCalls, allocator: Allocator, tmp_path: Path) -> None:
    """With a fake value, freed by a node, and read again by a process that has its groups."""
    module = fx_converter.convert(symmetric_artifact(), FxOptions(kernel_calls=form))
    module.graph.lint()
    (b, p_s) = (n for n in module.graph.nodes if "empty_symmetric" in str(n.target))
    assert (b.name, p_s.name) == ("b", "p_s")
    vals = [n.meta["val"] for n in (b, p_s)]
    assert all(isinstance(val, FakeTensor) for val in vals)
    assert [(str(val.shape), str(val.device)) for val in vals] == [
        ("torch.Size([3, 4])", "cuda:0"),
        ("torch.Size([2*s0])", "cuda:0"),
    ]
    freed = [n.args for n in module.graph.nodes if getattr(n.target, "__name__", "") == "free"]
    assert freed == [(b,), (p_s,)]
    fx_converter.save(module, tmp_path / "graph.wir")
    again = fx_converter.load(tmp_path / "graph.wir")
    assert str(again.graph) == str(module.graph)
    with lonely_group(tmp_path):
        assert_same(again(ROW, WEIGHT), (WEIGHT, torch.zeros(5)))
    assert [asked[-1] for asked in allocator.asked] == [7, 3]


def test_a_graph_that_is_traced_again_keeps_the_call(allocator: Allocator, tmp_path: Path) -> None:
    module = fx_converter.convert(symmetric_artifact(), FxOptions(kernel_calls="hop", convention="flat"))
    with lonely_group(tmp_path):
        again = make_fx(module, tracing_mode="symbolic")(ROW, WEIGHT)
        assert allocator.asked == []
        assert_same(again(torch.randn(7), WEIGHT), (WEIGHT, torch.zeros(7)))
    assert [asked[0] for asked in allocator.asked] == [(3, 4), (14,)]


def test_the_group_must_be_there(allocator: Allocator) -> None:
    for make in emitters().values():
        with pytest.raises(NotSupportedError, match="WIR915"):
            make(symmetric_artifact())(ROW, WEIGHT)
    with pytest.raises(NotSupportedError, match="WIR915"):
        Interpreter(symmetric_artifact(), TORCH_MACHINE)(ROW, WEIGHT)
    assert allocator.asked == []
