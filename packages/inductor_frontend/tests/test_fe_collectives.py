"""Capture of functional collectives, with a process group whose other members do not exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._inductor import config as inductor_config
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import inductor_frontend
from inductor_frontend import CaptureError, ConversionError
from tests.collectives.collective_cases import CASES, GROUP, HAS_P2P, c10d, fake_group, funcol
from tests.common.torch_versions import golden_file
from wrapper_ir import ir, print_program
from wrapper_ir.analysis.groups import groups_of
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import VerificationError, WirError

GOLDEN = Path(__file__).parent / "golden"
_NEEDS_P2P = pytest.mark.skipif(not HAS_P2P, reason="messages are operators since torch 2.12")


@pytest.fixture(autouse=True)
def _group() -> Iterator[None]:
    with fake_group():
        yield


def capture(function: Callable[..., Any], *args: Any, **options: Any) -> Artifact:
    return inductor_frontend.capture(function, args or (torch.randn(4, 4),), **options)


def functions_of(program: ir.Program) -> str:
    """The functions, without layout checks and provenance."""
    lines = print_program(program).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("func @main"))
    body = lines[start : lines.index("provenance") - 1]
    return "\n".join(line.partition("  #")[0] for line in body if "assert_layout" not in line) + "\n"


def communication(text: str) -> str:
    """Collectives and waits alone, with values unnamed."""
    lines = [line for line in text.splitlines() if " = collective " in line or " = wait " in line]
    return re.sub(r"%[\w.]+", "%", "\n".join(lines))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, update_golden: bool) -> None:
    case = CASES[name]
    function, args = case.make(0)
    with torch._dynamo.config.patch(capture_scalar_outputs=True), inductor_config.patch(dict(case.options)):
        artifact = inductor_frontend.capture(function, args, dynamic_shapes=case.dynamic)
    text = functions_of(artifact.program)
    path = golden_file(GOLDEN / f"{name}.wir.txt")
    if update_golden:
        path.write_text(text, encoding="utf-8")
    golden = path.read_text(encoding="utf-8")
    if case.options and torch.__version__.startswith("2.11."):  # torch's passes generate other kernels for it
        text, golden = communication(text), communication(golden)
    assert text == golden


def test_groups_are_named() -> None:
    group = dist.new_group([0, 1])

    def model(x: Tensor) -> Tensor:
        y = c10d.wait_tensor(c10d.all_reduce(x, "sum", GROUP))
        z: Tensor = torch.ops._dtensor.shard_dim_alltoall(y, 0, 1, group.group_name)
        return z

    assert groups_of(capture(model).program) == (GROUP, group.group_name)


def _ops(artifact: Artifact, *kinds: type[Any]) -> list[Any]:
    return [op for op in artifact.program.main.body if isinstance(op, kinds)]


def test_a_second_wait_is_no_wait() -> None:
    wait = c10d.wait_tensor
    artifact = capture(lambda x: wait(wait(c10d.all_gather_into_tensor(x, 2, GROUP))) + 1)
    assert len(_ops(artifact, ir.Wait)) == len(_ops(artifact, ir.CollectiveStart)) == 1
    assert not _ops(artifact, ir.CallExtern)


def test_weights_are_never_in_flight() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 4))

        def forward(self, x: Tensor) -> Any:
            return x @ c10d.wait_tensor(self.weight)

    assert not _ops(inductor_frontend.capture(Model(), (torch.randn(4, 4),)), ir.Wait)


def test_meshes_of_distributed_tensors_are_handed_on() -> None:
    """They are inputs of the forward graph, saved with its tensors, and inputs of the backward graph."""
    whole = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    mesh = init_device_mesh("cpu", (2,))
    model = parallelize_module(whole, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    compiled: Any = torch.compile(model, backend="wrapper_ir", fullgraph=True)
    compiled(torch.randn(4, 4)).square().sum().backward()  # of what this group leaves unset: any number
    grads: list[Any] = [p.grad for p in model.parameters()]
    assert [grad.to_local().shape for grad in grads] == [(4, 4), (4,), (4, 4), (4,)]


@contextmanager
def refused(error: type[WirError], code: str, *parts: str) -> Iterator[None]:
    with pytest.raises(error) as caught:
        yield
    assert caught.value.code == code
    for part in parts:
        assert part in str(caught.value)


class TestRefusals:
    def test_a_result_in_flight_is_read(self) -> None:
        with refused(VerificationError, "WIR046", "in flight", "aten.mul.Tensor"):
            capture(lambda x: c10d.all_reduce(x, "sum", GROUP) * 2)

    def test_an_argument_in_flight_is_written(self) -> None:
        def model(x: Tensor) -> Any:
            flying = c10d.all_gather_into_tensor(x, 2, GROUP)
            x.mul_(2)
            return flying

        with refused(VerificationError, "WIR049", "in flight", "aten.mul.Tensor"):
            capture(model)

    def test_in_place_collectives_of_the_user(self) -> None:
        with refused(CaptureError, "FE101", "all_reduce_"):
            capture(lambda x: c10d.wait_tensor(c10d.all_reduce_(x, "sum", GROUP)))

    @pytest.mark.skipif(
        not hasattr(funcol, "_group_or_group_name"), reason="groups are given by name only before torch 2.12"
    )
    def test_a_group_that_is_an_object(self) -> None:
        """One process can then compile for all of them; an artifact has no other way to name the group."""

        def model(x: Tensor) -> Any:
            return funcol.all_reduce(x, "sum", dist.group.WORLD)

        with (
            dist.config.patch(compile_on_one_rank=True),
            pytest.raises(Exception, match=r"FE310.* is given a process group as"),
        ):
            torch.compile(model, backend="wrapper_ir", fullgraph=True)(torch.randn(4, 4))

    @_NEEDS_P2P
    def test_a_message_that_is_never_waited_for(self) -> None:
        def model(x: Tensor) -> Tensor:
            c10d.isend(x, 1, 0, GROUP)
            return x + 1

        with refused(ConversionError, "FE310", "isend is never waited for", "hint: wait for it"):
            capture(model)

    @_NEEDS_P2P
    def test_messages_in_one_batch(self) -> None:
        def model(x: Tensor) -> Any:
            flying = c10d.batch_p2p_ops(["isend", "irecv"], [1, 1], [0, 0], [x, torch.empty_like(x)], GROUP)
            return [c10d.wait_tensor(t) for t in flying]

        with refused(ConversionError, "FE310", "batch_p2p_ops", "one by one"):
            capture(model)
