"""Capture, replay, copies and eager runs: emitted Python on a fake device."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import fx_converter
import py_wrapper
from fx_converter import FxOptions, targets
from py_wrapper import PyOptions
from tests.graphs.fake_graphs import FakeGraphs, fake_device
from wrapper_ir import parse_program
from wrapper_ir.analysis.input_facts import TensorInput
from wrapper_ir.analysis.inputs import input_checks
from wrapper_ir.artifact import bare_artifact
from wrapper_ir.plugins.protocols import CompiledProgram
from wrapper_ir_passes.cleanup.derive_frees import derive_frees
from wrapper_ir_runtime import GraphedFunction

PROGRAM = """wir 0.5
target cpu

symbol s0 : int backed [1, 64] hint 8

extern "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"
extern "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"

func @main(%x: f32[s0, 4], %w: static f32[4], %state: f32[4]) {
  define s0 = size(%x, 0)
  %y, %z = call_subgraph @graph(%x, %w, %state) : f32[s0, 4], f32[4]
  return %y, %z
}

func @graph(%x: f32[s0, 4], %w: static f32[4], %state: f32[4]) captures(s0) replayable {
  %y = call aten::mul.Tensor(%x, %w) : f32[s0, 4]
  call aten::add_.Tensor(%state, %w)
  %z = call aten::mul.Tensor(%state, %w) : f32[4]
  return %y, %z
}
"""


@pytest.fixture
def device() -> Iterator[FakeGraphs]:
    with fake_device() as device:
        yield device


@pytest.fixture(params=["python", "fx"])
def call(device: FakeGraphs, request: pytest.FixtureRequest) -> CompiledProgram:
    artifact = bare_artifact(derive_frees(parse_program(PROGRAM)))
    if request.param == "fx":
        return fx_converter.compile(artifact, FxOptions(cuda_graphs=2))
    return py_wrapper.compile(artifact, PyOptions(cuda_graphs=2))


class Case:
    """Calls with their expected results. Each has a separate input by default."""

    def __init__(self, call: CompiledProgram) -> None:
        self.call = call
        self.w, self.state = torch.full((4,), 2.0), torch.zeros(4)
        self.want = torch.zeros(4)
        self.inputs: list[torch.Tensor] = []

    def __call__(self, rows: int = 8, x: torch.Tensor | None = None) -> tuple[torch.Tensor, ...]:
        x = torch.randn(rows, 4) if x is None else x
        self.inputs.append(x)  # so that the next one has another address
        y, z = self.call.boxed([x, self.w, self.state])
        self.want += self.w
        torch.testing.assert_close(y, x * self.w)
        torch.testing.assert_close(self.state, self.want)
        torch.testing.assert_close(z, self.want * self.w)
        return y, z


def test_the_second_call_captures_and_the_others_replay(call: CompiledProgram, device: FakeGraphs) -> None:
    case = Case(call)
    for _ in range(5):
        case()
    assert (device.counts["cuda_graphs"], device.counts["replays"]) == (1, 4)
    assert device.counts["copies"] == 4  # of `x`: the others are weights and state
    assert not device.counts["owned"]
    assert device.counts["warm-ups"] == 1


def test_an_input_that_stays_is_not_copied(call: CompiledProgram, device: FakeGraphs) -> None:
    """Callers that fill one buffer pay for no copy.

    From the first call with another one on, each input is copied.
    """
    case, x = Case(call), torch.randn(8, 4)
    for _ in range(5):
        x.copy_(torch.randn(8, 4))
        case(x=x)
    assert (device.counts["cuda_graphs"], device.counts["replays"], device.counts["copies"]) == (1, 4, 0)
    for _ in range(3):
        case()
    case(x=x)
    assert (device.counts["cuda_graphs"], device.counts["replays"], device.counts["copies"]) == (2, 8, 4)
    for _ in range(3):  # with other numbers, it is known by now that inputs move
        case(4, torch.randn(4, 4))
    assert (device.counts["cuda_graphs"], device.counts["copies"]) == (3, 6)


def test_state_that_never_stays_is_copied_in_and_out(call: CompiledProgram, device: FakeGraphs) -> None:
    case, held = Case(call), []
    for _ in range(8):
        case.state = case.state.clone()
        held.append(case.state)
        case()
    assert device.counts["cuda_graphs"] == 1
    assert device.counts["copies"] == device.counts["replays"] * (2 + 1)


def test_a_caller_that_keeps_results(call: CompiledProgram, device: FakeGraphs) -> None:
    """The third call runs eagerly, since it would overwrite the second one's result.

    Results are copied from then on.
    """
    case = Case(call)
    kept = [case() for _ in range(6)]
    copies = [(y.clone(), z.clone()) for y, z in kept]
    assert device.counts["replays"] == 4
    assert device.counts["owned"] == 2 * 3
    case()
    for got, want in zip(kept, copies):
        torch.testing.assert_close(got, want)


def test_only_what_is_kept_is_copied(call: CompiledProgram, device: FakeGraphs) -> None:
    case = Case(call)
    kept = [case()[0] for _ in range(5)]
    assert (device.counts["replays"], device.counts["owned"]) == (3, 2)
    first = kept[1].clone()
    case()
    torch.testing.assert_close(kept[1], first)


def test_a_view_of_a_result_keeps_it(call: CompiledProgram, device: FakeGraphs) -> None:
    case = Case(call)
    case()
    row = case()[0][3]
    want = row.clone()
    case()
    torch.testing.assert_close(row, want)


def test_weights_updated_in_place_and_replaced(call: CompiledProgram, device: FakeGraphs) -> None:
    case = Case(call)
    for _ in range(3):
        case()
    case.w.mul_(3)
    case()
    assert device.counts["cuda_graphs"] == 1
    case.w = torch.full((4,), 5.0)
    case()  # as it is
    case()
    case()
    assert (device.counts["cuda_graphs"], device.counts["replays"]) == (2, 5)


def test_a_static_argument_that_never_stays_is_copied(call: CompiledProgram, device: FakeGraphs) -> None:
    case, held = Case(call), []
    for _ in range(8):
        case.w = torch.full((4,), 2.0)
        held.append(case.w)
        case()
    assert device.counts["cuda_graphs"] == 1
    assert device.counts["replays"] == 5


def test_sizes_are_keys_and_graphs_are_bounded(call: CompiledProgram, device: FakeGraphs) -> None:
    case = Case(call)
    for rows in (1, 2, 3, 4) * 5:
        case(rows)
    assert device.counts["cuda_graphs"] == 2
    assert device.counts["warm-ups"] <= 4  # past the limit, a call that runs as it is is not a warm-up
    replays = device.counts["replays"]
    for rows in (5, 6) * 20:  # the others are not used any more
        case(rows)
    assert device.counts["cuda_graphs"] == 4
    assert device.counts["replays"] > replays


def test_ten_thousand_calls_leave_nothing(call: CompiledProgram, device: FakeGraphs) -> None:
    """Batches of 1 to 64 in any order: no more graphs than the limit, and no more objects after thousands of
    calls.
    """
    w, state = torch.ones(4), torch.zeros(4)
    inputs = [torch.randn(rows, 4) for rows in range(1, 65)]
    order = random.Random(0)
    counts: list[int] = []
    for number in range(10_000):
        x = order.choice(inputs)
        y, _ = call.boxed([x, w, state])
        if number % 100 == 0:
            assert torch.equal(y, x)
        if number in (5_000, 9_999):
            del x, y, _
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert counts[1] <= counts[0] + 20
    functions = [x for x in gc.get_objects() if type(x) is GraphedFunction and x.device is device]
    assert functions
    assert all(sum(known.replay is not None for known in f._keys.values()) <= 2 for f in functions)
    assert device.counts["replays"] > 100


def test_nothing_is_captured_with_a_tensor_of_another_device(
    call: CompiledProgram, device: FakeGraphs
) -> None:
    """Seeds of attention operators are on the CPU as long as forward runs eagerly."""
    case = Case(call)
    device.elsewhere = case.w
    for _ in range(4):
        case()
    before = device.counts["cuda_graphs"]
    device.elsewhere = None
    for _ in range(3):
        case()
    assert (before, device.counts["cuda_graphs"]) == (0, 1)


def test_what_cannot_be_captured_runs_as_it_is(
    call: CompiledProgram, device: FakeGraphs, caplog: pytest.LogCaptureFixture
) -> None:
    device.forbidden = "aten.mul"
    case = Case(call)
    for _ in range(4):
        case()
    assert (device.counts["tries"], device.counts["cuda_graphs"], device.counts["warm-ups"]) == (1, 0, 1)
    (line,) = [r.getMessage() for r in caplog.records]
    assert "graph runs as it is" in line
    assert "not permitted" in line


def test_memory_exhausted_concerns_one_key(
    call: CompiledProgram, device: FakeGraphs, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(call)
    device.exhausted = True
    for _ in range(3):
        case(64)
    (line,) = [r.getMessage() for r in caplog.records]
    assert "runs as it is" in line
    assert "out of memory" in line
    device.exhausted = False
    for _ in range(3):
        case(2)
    case(64)
    assert (device.counts["tries"], device.counts["cuda_graphs"], device.counts["replays"]) == (2, 1, 2)


def test_inside_of_another_graph(call: CompiledProgram, device: FakeGraphs) -> None:
    case = Case(call)
    device.current = None
    for _ in range(3):
        case()
    assert not device.counts


def test_streams_and_threads_take_turns(call: CompiledProgram, device: FakeGraphs) -> None:
    case = Case(call)
    for _ in range(2):
        case()
    device.current = 2
    case()
    assert device.counts["follow 1"] == 1
    ready, results = threading.Barrier(4), list[bool]()

    def work() -> None:
        w, state = case.w, torch.zeros(4)
        ready.wait()
        for _ in range(50):
            x = torch.randn(8, 4)
            results.append(torch.equal(call.boxed([x, w, state])[0], x * w))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 200


def test_a_device_that_is_lost(call: CompiledProgram, device: FakeGraphs) -> None:
    """Each caller gets the error, in any thread; after a reset of the device calls work again."""
    case = Case(call)
    for _ in range(2):
        case()
    device.fault = RuntimeError("an illegal memory access was encountered")

    def told() -> str:
        with pytest.raises(RuntimeError) as caught:
            call.boxed([torch.randn(8, 4), case.w, case.state])
        return str(caught.value)

    with ThreadPoolExecutor(1) as other:
        for where in (told, lambda: other.submit(told).result(timeout=60), told):
            assert where() == "an illegal memory access was encountered"
    device.fault = None
    for _ in range(3):
        case()
    assert device.counts["cuda_graphs"] == 1


def test_nothing_is_captured_where_the_limit_is_none(device: FakeGraphs) -> None:
    program = derive_frees(parse_program(PROGRAM))
    case = Case(py_wrapper.compile(bare_artifact(program), PyOptions(cuda_graphs=0)))
    for _ in range(3):
        case()
    assert not device.counts


def test_a_graph_that_is_saved(device: FakeGraphs, tmp_path: Path) -> None:
    """The node keeps the requirements of a capture.

    A graph module that is called directly captures nothing.
    """
    artifact = bare_artifact(derive_frees(parse_program(PROGRAM)))
    fx_converter.save(fx_converter.convert(artifact, FxOptions(convention="flat")), tmp_path / "graph.wir")
    module = fx_converter.load(tmp_path / "graph.wir")
    (node,) = [n for n in module.graph.nodes if n.target is targets.replay_effect]
    assert node.args[0] == ("graph", "cpu", 3, (0, 1, 2), (1,), (2,), ())
    boxed = fx_converter.boxed_call(module, cuda_graphs=4)
    x, w, state = torch.randn(8, 4), torch.randn(4), torch.zeros(4)
    for run in (lambda args: module(*args), boxed, boxed, boxed):
        torch.testing.assert_close(run([x, w, state])[0], x * w)
    assert (device.counts["cuda_graphs"], device.counts["replays"]) == (1, 2)


SEEDS_IN_A_REGION = """wir 0.5
target cuda

extern "aten::neg(Tensor self) -> Tensor"

kernel cpp @k entry "k" (read i64* x) {{{
extern "C" void k(const long* x) {}
}}}

func @main(%seed: i64[], %seen: i64[], %idle: i64[]) {
  %a, %b = call_subgraph @graph(%seed, %seen, %idle) : i64[], i64[]
  drop %seed
  drop %seen
  drop %idle
  return %a, %b
}

func @graph(%s: static i64[], %t: static i64[], %u: static i64[]) replayable {
  %a = call aten::neg(%s) : i64[]
  %b = call aten::neg(%t) : i64[]
  launch @k(%t)
  return %a, %b
}
"""


def test_numbers_that_only_operators_of_a_region_take_may_lie_on_the_cpu() -> None:
    wanted = [want for _, want in input_checks(parse_program(SEEDS_IN_A_REGION)).entry]
    assert [want.or_cpu for want in wanted if isinstance(want, TensorInput)] == [True, False, False]
