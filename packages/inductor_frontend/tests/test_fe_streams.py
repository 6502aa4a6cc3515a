"""Streams and events of a model: placement of ops, their order, and refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from packages.inductor_frontend.tests.stream_models import PATTERNS, Branches, beside, event, stream

import inductor_frontend
import py_wrapper
import wrapper_ir
from inductor_frontend import CaptureOptions, frontend
from inductor_frontend.backend import graph as backend_graph
from inductor_frontend.backend.between_streams import between_streams
from inductor_frontend.cache.graph_entry import CompiledGraph
from inductor_frontend.scope.outer_streams import OuterStreams
from inductor_frontend.torch_patches._compat import ORDERS_STREAMS
from inductor_frontend.translate.program import GraphProgram, build_program
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import VerificationError, WirError
from wrapper_ir.verifier import check

pytestmark = pytest.mark.skipif(not ORDERS_STREAMS, reason="this version of torch does not order streams")

Model = Callable[..., Any]


def captured(model: Model, **options: Any) -> Artifact:
    x = torch.randn(8, 8)
    return inductor_frontend.capture(model, (x, x), target="cuda:sm_90", options=CaptureOptions(**options))


def main_text(artifact: Artifact) -> list[str]:
    text = wrapper_ir.print_program(artifact.program)
    lines = text[text.index("func @main") :].split("\n}")[0].splitlines()[1:]
    return [line.split("  #")[0].strip() for line in lines]


def orders(artifact: Artifact) -> list[str]:
    """Returns the ops that order streams, and the streams of launches and calls."""
    classes = (ir.Launch, ir.CallExtern, ir.RecordEvent, ir.WaitEvent, ir.SyncEvent)
    return [
        f"{type(op).__name__} {getattr(op, 'stream', '')}".strip()
        for op in artifact.program.main.body
        if isinstance(op, classes)
    ]


def test_ops_go_to_their_stream() -> None:
    artifact = captured(beside)
    lines = main_text(artifact)
    assert [
        line for line in lines if "stream(1)" in line and "wait" not in line and "record" not in line
    ] == [
        "%buf4 = alloc f32[8, 8] stream(1)",
        "launch @triton_poi_fused_sin_1(%buf0, %buf4, 64) extents(256, 256) stream(1)",
        "%buf5 = alloc f32[8, 8] stream(1)",
        "call aten::mm.out(%buf4, %w, out=%buf5) stream(1)",
    ]
    assert orders(artifact) == [
        "RecordEvent 0",  # work queued before the call
        "WaitEvent 1",
        "Launch 0",
        "RecordEvent 0",
        "WaitEvent 1",
        "Launch 1",
        "CallExtern 1",
        "RecordEvent 1",
        "Launch 0",
        "CallExtern 0",
        "WaitEvent 0",
        "Launch 0",
        "RecordEvent 1",  # work after the call
        "WaitEvent 0",
        "RecordEvent 0",
        "WaitEvent 1",
    ]


def test_memory_of_several_streams_lasts_until_they_have_met() -> None:
    body = captured(beside).program.main.body
    last_wait = max(i for i, op in enumerate(body) if isinstance(op, ir.WaitEvent))
    late = {op.storage.name for op in body[last_wait:] if isinstance(op, ir.Free)}
    early = {op.storage.name for op in body[:last_wait] if isinstance(op, ir.Free)}
    assert late == {"buf0.s", "buf5.s"}  # read on another stream than the one that allocates it
    assert "buf4.s" in early
    assert isinstance(body[-1], ir.Return)


def test_python_enters_streams() -> None:
    source = py_wrapper.emit(captured(beside)).source
    assert source.count('stream1 = torch.cuda.Stream("cuda:0")') == 1
    assert "cuda.enter_stream(stream1)\n            triton_poi_fused_sin_1(" in source


def test_streams_that_write_one_storage() -> None:
    artifact = captured(Branches())
    lines = main_text(artifact)
    begin = next(i for i, line in enumerate(lines) if "record_event" in line)
    (shared,) = [line for line in lines[:begin] if "alloc" in line]
    assert shared.endswith("= alloc f32[8, 16]")  # both parts, before streams begin
    source = py_wrapper.emit(artifact).source
    assert source.index("empty_cuda((8, 16)") < source.index(".wait_event(")
    (constant,) = [c for c in artifact.program.constants if c.mutable]
    assert constant.value.name == "seen"


def test_streams_that_write_one_storage_of_any_size() -> None:
    rows = torch.export.Dim("rows", max=64)
    artifact = inductor_frontend.capture(
        Branches(),
        (torch.randn(6, 8), torch.randn(8, 8)),
        target="cuda:sm_90",
        dynamic_shapes=({0: rows}, None),
        options=CaptureOptions(),
    )
    lines = main_text(artifact)
    begin = next(i for i, line in enumerate(lines) if "record_event" in line)
    assert [line for line in lines[:begin] if "alloc" in line]


def test_what_nobody_waits_for_is_found() -> None:
    def race(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        side = stream()
        with torch.cuda.stream(side):
            lhs = x.sin() @ w
        return lhs + 1

    with pytest.raises(VerificationError, match=r"WIR045.*stream 1 of cuda:0"):
        captured(race)


def test_ways_to_order() -> None:
    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        first = stream()
        second = stream(priority=-1)
        with first:
            a = x.sin()
            recorded = first.record_event()
            with torch.cuda.stream(second):
                second.wait_event(recorded)
                b = a @ w
            second.synchronize()
            b.record_stream(first)
        torch.cuda.current_stream().wait_stream(first)
        with torch.cuda.stream(None):
            c = b.cos()
        torch.cuda.synchronize()
        return c

    assert orders(captured(model)) == [
        *("RecordEvent 0", "WaitEvent 1", "WaitEvent 2"),
        *("Launch 1", "RecordEvent 1", "WaitEvent 2"),
        *("CallExtern 2", "RecordEvent 2", "SyncEvent"),
        *("RecordEvent 1", "WaitEvent 0", "Launch 0"),
        *("RecordEvent 0", "SyncEvent", "RecordEvent 1", "SyncEvent", "RecordEvent 2", "SyncEvent"),
        *("RecordEvent 1", "WaitEvent 0", "RecordEvent 2", "WaitEvent 0"),
        *("RecordEvent 0", "WaitEvent 1", "WaitEvent 2"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("model", PATTERNS, ids=lambda model: model.__name__)
def test_patterns_are_ordered(model: Model) -> None:
    """Verification succeeds although Inductor may reorder independent ops, and fails without any of the
    model's events."""
    program = captured(model).program
    assert any(line.startswith(("Launch 1", "CallExtern 1")) for line in orders(captured(model)))
    body = program.main.body
    end = max(i for i, op in enumerate(body) if isinstance(op, ir.Launch | ir.CallExtern))
    waits = [op for op in body[:end] if isinstance(op, ir.WaitEvent | ir.SyncEvent)]
    assert waits
    bare = tuple(op for op in body if op not in waits)
    main = dataclasses.replace(program.main, body=bare)
    assert any(d.code == "WIR045" for d in check(dataclasses.replace(program, functions=(main,))))


def _outside(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    other = event()
    y = x.sin()
    other.wait()
    return y + w


def _asking(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    side = stream()
    return x if side.query() else w


def _branching(x: torch.Tensor, w: torch.Tensor) -> Any:
    side = stream()
    with torch.cuda.stream(side):
        return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (_outside, r"FE202.*an event that it has not recorded"),
        (_asking, r"FE101.*queries whether a stream has finished"),
        (_branching, r"FE202.*inside control flow"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_refused(model: Model, wanted: str) -> None:
    with pytest.raises(WirError, match=wanted):
        captured(model)


def test_torch_is_as_before() -> None:
    before = (torch.cuda.Stream, torch.cuda.Stream.wait_stream, torch.cuda.StreamContext.__enter__)
    captured(beside)
    with pytest.raises(WirError):
        captured(_asking)
    assert (torch.cuda.Stream, torch.cuda.Stream.wait_stream, torch.cuda.StreamContext.__enter__) == before


def test_what_a_graph_has_to_do_with_its_caller() -> None:
    """Reports streams and events by Inductor's numbers. Such a graph is not stored, since the numbers are
    local to the process."""
    programs: list[GraphProgram] = []

    def keeping(*args: Any) -> GraphProgram:
        programs.append(build_program(*args))
        return programs[-1]

    with mock.patch.object(frontend, "build_program", keeping):
        artifact = captured(beside)
        captured(lambda x, w: x + w)
    assert [program.outer for program in programs] == [
        OuterStreams(streams=(1,), recorded=(0,)),
        OuterStreams(),
    ]
    graph = CompiledGraph(
        artifact=artifact, inputs=2, positions=(0, 1), strides=(), guards=(), outer=programs[0].outer
    )
    store = mock.Mock()
    assert not backend_graph._store(store, "key", graph)
    assert not store.mock_calls


def test_a_graph_between_the_streams_of_its_caller() -> None:
    log = mock.Mock()
    streams = {1: log.stream, 2: log.other, 3: log.event, 4: log.outside}
    with mock.patch("torch._dynamo.graph_bytecode_inputs.get_external_object_by_index", streams.__getitem__):
        call = between_streams(log.run, OuterStreams(streams=(1, 2), recorded=(3,), awaited=(4,)))
    with mock.patch.object(torch.cuda, "current_stream", return_value=log.current):
        call([7])
    assert log.mock_calls == [
        mock.call.current.wait_stream(log.stream),
        mock.call.current.wait_stream(log.other),
        mock.call.current.wait_event(log.outside),
        mock.call.run([7]),
        mock.call.stream.wait_stream(log.current),
        mock.call.other.wait_stream(log.current),
        mock.call.event.record(log.current),
    ]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="streams need a CUDA device, and there is none")
@pytest.mark.parametrize("model", PATTERNS, ids=lambda model: model.__name__)
@pytest.mark.parametrize("how", ["captured", "here", "compiled"])
def test_on_a_device(how: str, model: Model) -> None:
    """Uses tensors that are large enough to expose a missing order."""
    x, w = (torch.randn(2048, 2048, device="cuda") / 32 for _ in range(2))
    want = model(x.clone(), w)
    torch.cuda.synchronize()
    runs: dict[str, Callable[[], Model]] = {
        "captured": lambda: py_wrapper.compile(captured_like(model, x)),
        "here": lambda: py_wrapper.compile(inductor_frontend.capture(model, (x.clone(), w))),
        "compiled": lambda: torch.compile(model, backend="wrapper_ir"),
    }
    torch.compiler.reset()
    run = runs[how]()
    for _ in range(10):
        torch.testing.assert_close(run(x.clone(), w), want, rtol=2e-3, atol=1e-2)


def captured_like(model: Model, x: torch.Tensor) -> Artifact:
    major, minor = torch.cuda.get_device_capability()
    host = torch.randn(x.shape)
    return inductor_frontend.capture(model, (host, host.clone()), target=f"cuda:sm_{major}{minor}")
