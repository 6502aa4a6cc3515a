"""Programs that choose among kernels, over CPU tensors in Triton's interpreter: any choice equals eager mode."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import py_wrapper
import wrapper_ir
from inductor_frontend import CaptureOptions, capture
from py_wrapper import TORCH_MACHINE, PyOptions
from tests.common import zoo
from triton_runtime import KernelError, TritonOptions, TritonRuntime
from triton_runtime.choose import ChoiceOptions, Pick
from triton_runtime.tune.measure import MeasureOptions
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.json.kernel_hash import content_hash
from wrapper_ir_passes.tuning.apply_choices import with_choices
from wrapper_ir_runtime.interp import call

pytest.importorskip("triton", reason="Inductor writes Triton kernels only where triton is installed")

MULTI = CaptureOptions(cpu_kernels="triton", multi_kernels=True)
TEMPLATES = CaptureOptions(cpu_kernels="triton", matmuls="templates")
Model = Callable[..., Any]  # Any: results of models


MATMULS: dict[str, tuple[Model, tuple[torch.Tensor, ...]]] = {
    "a layer": (nn.Sequential(nn.Linear(17, 40), nn.GELU()).eval(), (torch.randn(20, 17),)),
    "batched": (lambda x, y: torch.bmm(x, y) + 1, (torch.randn(3, 20, 17), torch.randn(3, 17, 40))),
    "scaled": (
        lambda b, x, y: torch.addmm(b, x, y, alpha=2, beta=3),
        (torch.randn(5), torch.randn(20, 17), torch.randn(17, 5)),
    ),
    "of what a kernel makes": (lambda x, y: x.half().float() @ y, (torch.randn(32, 64), torch.randn(64, 48))),
    "of parts": (lambda x, y: x[2:, :16] @ y[16:, 3:20], (torch.randn(22, 20), torch.randn(32, 24))),
    "a sum of two": (lambda a, b, c, d: a @ b + c @ d, tuple(torch.randn(32, 32) for _ in range(4))),
    "a convolution": (nn.Conv2d(4, 8, 3, stride=2, bias=False).eval(), (torch.randn(2, 4, 9, 9),)),
    "a convolution with a bias": (nn.Conv2d(4, 8, 3).eval(), (torch.randn(2, 4, 9, 9),)),
}


def running(artifact: Artifact, picks: list[Pick], force: int | None) -> Model:
    """Returns the program as emitted Python, with choices recorded in `picks`, or forced."""
    choice = ChoiceOptions(force=force, stored=False, picked=picks.append)
    return through(artifact, TritonRuntime(options=TritonOptions(choice=choice)))


def through(artifact: Artifact, runtime: TritonRuntime) -> Model:
    return py_wrapper.compile(artifact, PyOptions(find_runtime=lambda kind: runtime))


@pytest.mark.parametrize("force", [0, 1, None], ids=["looped", "persistent", "measured"])
def test_a_softmax(force: int | None) -> None:
    model, x = nn.Softmax(-1), torch.randn(3, 300)
    artifact = capture(model, (x,), options=MULTI)
    picks: list[Pick] = []
    torch.testing.assert_close(running(artifact, picks, force)(x), model(x))
    assert [p.why for p in picks] == ["measured" if force is None else "forced"]
    assert force is None or picks[0].index == force


@pytest.mark.slow
def test_a_transformer() -> None:
    case = zoo.gpt2(layers=1)
    artifact = capture(case.model, case.args, case.kwargs, options=MULTI)
    assert any(isinstance(k, ir.MultiKernel) for k in artifact.program.kernels)
    with torch.no_grad():
        want = case.model(*case.args, **(case.kwargs or {}))
    for force in (0, 1):
        picks: list[Pick] = []
        got = running(artifact, picks, force)(*case.args, **(case.kwargs or {}))
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        assert {p.index for p in picks} == {force}


@pytest.mark.slow
@pytest.mark.parametrize("name", MATMULS)
def test_templates(name: str) -> None:
    """With the first and the last of their configs."""
    model, args = MATMULS[name]
    artifact = capture(model, args, options=TEMPLATES)
    found = [
        k for k in artifact.program.kernels if isinstance(k, ir.TritonKernel) and k.heuristic == "template"
    ]
    assert bool(found) is (name != "a convolution with a bias")  # which Inductor's template forgets on a CPU
    for options in (TritonOptions(), TritonOptions(choose=lambda kernel: kernel.configs[-1])):
        compiled = through(artifact, TritonRuntime(options=options))
        with torch.no_grad():
            torch.testing.assert_close(compiled(*args), model(*args), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("hints", [(), (64, 1024)], ids=["without hints", "with hints"])
def test_templates_of_other_sizes(hints: tuple[int, ...]) -> None:
    options = CaptureOptions(cpu_kernels="triton", matmuls="templates", size_hints=hints)
    shapes = ({0: torch.export.Dim("rows")}, None)
    x, y = torch.randn(32, 64), torch.randn(64, 48)
    artifact = capture(lambda x, y: (x @ y).relu(), (x, y), dynamic_shapes=shapes, options=options)
    compiled = py_wrapper.compile(artifact)
    for rows in (1, 50):
        x = torch.randn(rows, 64)
        torch.testing.assert_close(compiled(x, y), (x @ y).relu(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "name", ["a layer", "batched", "scaled", "of parts", "a sum of two", "a convolution"]
)
def test_candidates(name: str) -> None:
    """The operator, then the template."""
    model, args = MATMULS[name]
    options = CaptureOptions(cpu_kernels="triton", matmuls="candidates")
    artifact = capture(model, args, options=options)
    assert any(isinstance(k, ir.OperatorKernel) for k in artifact.program.kernels)
    for force in (0, 1):
        picks: list[Pick] = []
        with torch.no_grad():
            got = running(artifact, picks, force)(*args)
            torch.testing.assert_close(got, model(*args), rtol=1e-4, atol=1e-4)
        assert [p.index for p in picks] == [force]


def test_an_operator_is_measured_beside_a_template_with_all_configs() -> None:
    x, y = torch.randn(16, 16), torch.randn(16, 16)
    options = CaptureOptions(cpu_kernels="triton", matmuls="candidates")
    artifact = capture(lambda x, y: x @ y, (x, y), options=options)
    (template,) = (k for k in artifact.program.kernels if isinstance(k, ir.TritonKernel))
    assert len(template.configs) > 1
    picks: list[Pick] = []
    rounds = MeasureOptions(rounds=3, trial=1, warm_up=0)
    choice = ChoiceOptions(stored=False, picked=picks.append, rounds=rounds)
    runtime = TritonRuntime(options=TritonOptions(choice=choice))
    compiled = through(artifact, runtime)
    torch.testing.assert_close(compiled(x, y), x @ y, rtol=1e-4, atol=1e-4)
    assert [p.variant for p in picks] == ["operator_mm_0"]  # the interpreter is not faster than a library
    tuned = [
        entry
        for place, entry in runtime.measurements.entries.items()
        if place.kernel == content_hash(template)
    ]
    assert [len(entry.order) for entry in tuned] == [len(template.configs)]


def test_a_chosen_operator_stands_alone() -> None:
    """As tuning leaves it in a program."""
    x, y = torch.randn(16, 16), torch.randn(16, 16)
    options = CaptureOptions(cpu_kernels="triton", matmuls="candidates")
    artifact = capture(lambda x, y: x @ y, (x, y), options=options)
    program = with_choices(artifact.program, {}, {"multi_kernel_0": 0})
    assert [k.kind for k in program.kernels] == ["operator"]
    alone = dataclasses.replace(artifact, program=program)
    wrapper_ir.verify(alone)
    torch.testing.assert_close(py_wrapper.compile(alone)(x, y), x @ y)
    torch.testing.assert_close(call(alone, TORCH_MACHINE, (x, y), {}), x @ y)


def test_an_operator_that_torch_does_not_have() -> None:
    kernel = ir.OperatorKernel(name="k", params=(), schema="aten::nothing(Tensor(a!) self) -> ()")
    with pytest.raises(KernelError, match=r"TR111.*aten::nothing"):
        TritonRuntime().load(kernel, ir.Target())
