"""Placement of work in FX graphs: devices, streams and events as nodes in the program's order.

On a GPU their results.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from packages.py_wrapper.tests.stream_program import STREAMS
from torch import fx

import fx_converter
import wrapper_ir
from fx_converter import FxOptions
from fx_converter.kernels import KernelCalls
from fx_converter.targets import placement
from tests.common.compare import assert_same
from tests.common.forms import both_forms
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import ExecutionError
from wrapper_ir_torch import DeviceFunctions

PROGRAM = """wir 0.5
target cuda:1 arch "sm_90"

symbol s0 : int backed [2, 64] hint 4

func @main(%x: f32[s0], %y: f32[s0], %z: f32[s0]) {
  define s0 = size(%x, 0)
  %begun = record_event @cuda:1
  wait_event %begun @cuda:1 stream(1)
  drop %begun
  copy %x, %z stream(1)
  assert s0 <= 8 "too long"
  %done = record_event @cuda:1 stream(1)
  copy %y, %z
  wait_event %done @cuda:1
  copy %y, %x
  sync_event %done
  drop %done
  return %y
}
"""
INPUTS = ", ".join(f"('{name}', 'f32[s0]', 'f32', 'cuda:1', (None,), (1,))" for name in "xyz")
CALLS = [
    f"check_inputs([x, y, z], ({INPUTS}))",
    "check_storages([x, y, z], (('x', None, 4), ('y', None, 4), ('z', None, 4)))",
    "enter_device('cuda:1',)",
    "sym_size.int(x, 0)",
    "assert_layout(y, [s0], [1], 0, 'argument y')",
    "assert_layout(z, [s0], [1], 0, 'argument z')",
    "record_event('cuda:1', 0)",
    "wait_event(begun, 'cuda:1', 1)",
    "enter_stream('cuda:1', 1)",
    "copy_.default(x, z, False)",
    "exit_stream(enter_stream,)",
    "le(s0, 8)",
    "assert_expr(le, 'too long', 's0 <= 8')",
    "record_event('cuda:1', 1)",
    "copy_.default(y, z, False)",
    "wait_event(done, 'cuda:1', 0)",
    "copy_.default(y, x, False)",
    "sync_event(done,)",
    "exit_device(enter_device,)",
]


def artifact(text: str = PROGRAM) -> Artifact:
    program = wrapper_ir.parse_program(text)
    wrapper_ir.verify(program)
    return bare_artifact(program)


def calls(module: fx.GraphModule) -> list[str]:
    nodes = [n for n in module.graph.nodes if n.op == "call_function"]
    return [f"{getattr(n.target, '__name__', '')}{n.args}" for n in nodes]


class Gpus:
    """Replaces `torch.cuda`: records its calls."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def current_stream(self, device: str) -> Any:
        gpus = self

        class Current:
            def wait_event(self, event: object) -> None:
                gpus.log.append(f"the current stream of {device} waits for {event}")

            def __str__(self) -> str:
                return f"the current stream of {device}"

        return Current()

    def Event(self) -> Any:
        gpus = self

        class Event:
            def record(self, stream: object) -> None:
                gpus.log.append(f"an event in {stream}")

            def synchronize(self) -> None:
                gpus.log.append("the host waits")

            def __str__(self) -> str:
                return "an event"

        return Event()

    def functions(self) -> DeviceFunctions:
        """Returns functions of a device that is current, and whose stream is, until they set another."""
        return DeviceFunctions(
            current_device=lambda: 1,
            set_device=lambda index: self.log.append(f"enter device {index}"),
            restore_device=lambda index: self.log.append(f"leave device {index}"),
            current_stream=lambda index: (f"stream 1 of cuda:{index}",),
            enter_stream=lambda stream: self.log.append(f"enter {stream}"),
            restore_stream=lambda stream: self.log.append(f"leave {stream}"),
        )


class Numbered(str):
    """A stream of a number, which waits for events."""

    log: list[str]
    device_index = 1

    def wait_event(self, event: object) -> None:
        self.log.append(f"{self} waits for {event}")


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Gpus:
    made = Gpus()

    def numbered(device: str, stream: int) -> Numbered:
        found = Numbered(f"stream {stream} of {device}")
        found.log = made.log
        return found

    monkeypatch.setattr(placement, "_module", lambda device: made)
    monkeypatch.setattr(placement, "_numbered", numbered)
    monkeypatch.setattr(placement, "_functions", lambda device: made.functions())
    return made


@both_forms
def test_streams_and_events_are_nodes_in_the_programs_order(form: KernelCalls, tmp_path: Path) -> None:
    module = fx_converter.convert(artifact(), FxOptions(kernel_calls=form))
    module.graph.lint()
    assert calls(module) == CALLS
    names = {n.name: n.meta.get("value") for n in module.graph.nodes}
    assert (names["begun"], names["done"]) == ("begun", "done")
    fx_converter.save(module, tmp_path / "graph.wir")
    again = fx_converter.load(tmp_path / "graph.wir", FxOptions(kernel_calls=form))
    assert calls(again) == CALLS


@both_forms
@pytest.mark.parametrize("boxed", [False, True])
def test_what_is_asked_of_the_device(form: KernelCalls, boxed: bool, gpus: Gpus) -> None:
    guarded = ir.Guarded.all_inputs(artifact().program)  # tensors of the CPU replace the device's
    options = FxOptions(kernel_calls=form, guarded=guarded)
    run = (fx_converter.compile if boxed else fx_converter.convert)(artifact(), options)
    z = torch.randn(4)
    (got,) = run(torch.zeros(4), torch.zeros(4), z)
    assert_same(got, z)
    assert gpus.log == [
        "enter device 1",
        "an event in the current stream of cuda:1",
        "stream 1 of cuda:1 waits for an event",
        "enter stream 1 of cuda:1",
        "leave stream 1 of cuda:1",
        "an event in stream 1 of cuda:1",
        "the current stream of cuda:1 waits for an event",
        "the host waits",
        "leave device 1",
    ]


@pytest.mark.parametrize("make", [fx_converter.compile, fx_converter.convert])
def test_a_failed_call_leaves_what_it_entered(make: Callable[..., Any], gpus: Gpus) -> None:
    run = make(artifact(), FxOptions(guarded=ir.Guarded.all_inputs(artifact().program)))
    with pytest.raises(ExecutionError, match="WIR920"):
        run(torch.zeros(9), torch.zeros(9), torch.zeros(9))
    assert gpus.log[0] == "enter device 1"
    assert gpus.log[-1] == "leave device 1"
    gpus.log.clear()
    with pytest.raises(RuntimeError, match="size"):
        run(torch.zeros(4), torch.zeros(4), torch.zeros(5))
    assert gpus.log[-3:] == ["enter stream 1 of cuda:1", "leave stream 1 of cuda:1", "leave device 1"]


def test_a_device_without_index_is_the_current_one() -> None:
    text = PROGRAM.replace("cuda:1", "cuda").replace(" stream(1)", "").replace(" stream(2)", "")
    module = fx_converter.convert(artifact(text))
    assert not any("device" in call or "stream" in call for call in calls(module))


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@pytest.mark.gpu
@needs_gpu
@both_forms
def test_two_streams_on_a_device(form: KernelCalls) -> None:
    x, w = (torch.randn(512, 512, device="cuda:0") for _ in range(2))
    options = FxOptions(kernel_calls=form)
    want = x @ w + w @ x
    for run in (
        fx_converter.convert(artifact(STREAMS), options),
        fx_converter.compile(artifact(STREAMS), options),
    ):
        for _ in range(3):
            sums, host, counts = run(x, w)
            torch.testing.assert_close(sums, want)
            torch.testing.assert_close(host, want.cpu())
            assert counts.device == x.device
            assert not counts.any()
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="two CUDA devices are needed")
@both_forms
def test_a_program_of_another_device_than_the_current_one(form: KernelCalls) -> None:
    x, w = (torch.randn(512, 512, device="cuda:1") for _ in range(2))
    run = fx_converter.compile(artifact(STREAMS.replace("cuda:0", "cuda:1")), FxOptions(kernel_calls=form))
    torch.cuda.set_device(0)
    sums, _, counts = run(x, w)
    torch.testing.assert_close(sums, x @ w + w @ x)
    assert (sums.device, counts.device) == (x.device, x.device)
    assert torch.cuda.current_device() == 0
