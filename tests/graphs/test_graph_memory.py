"""Memory of graph results: no value that a caller keeps is overwritten, in any order of calls, and backward
reuses forward's memory.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.graphs.arena_graphs import ArenaGraphs, Array
from tests.graphs.arena_training import SIZE, Training, layers
from wrapper_ir_runtime import DeviceGraphs


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("wildness", [0.0, 0.02, 0.1, 0.4])
def test_nothing_that_is_held_is_written_over(wildness: float, late: bool) -> None:
    replays = cuda_graphs = 0
    for seed in range(12):
        training = Training(seed, late=late)
        for _ in range(50):
            training.step(wildness)
        replays += training.device.replays
        cuda_graphs += training.device.cuda_graphs
    assert replays > cuda_graphs * (10 if wildness < 0.01 else 2)


class _WarmInGraphs(ArenaGraphs):
    """Warm-ups use the memory of graphs, without tracking who keeps their results."""

    def warm_up(self, run: Callable[[], tuple[Array, ...]]) -> tuple[Array, ...]:
        with self._from(self.graph_memory):
            return run()


def test_warm_ups_in_memory_of_graphs_would_be_written_over() -> None:
    """The simulated device shows it: an earlier graph computes in memory of a later warm-up."""
    found = 0
    for seed in range(12):
        training = Training(seed, device=_WarmInGraphs())
        try:
            for _ in range(20):
                training.step(0.2)
        except AssertionError:
            found += 1
    assert found >= 3


def test_backward_captured_anew_reads_what_forward_saved() -> None:
    """The first graph of backward reused its memory, so that a second one may not use it from the beginning."""
    for seed in range(20):
        training = Training(seed)
        for number in range(16):
            training.step(moved=number == 6)
        cuda_graphs = training.device.cuda_graphs
        replays = training.device.replays
        for _ in range(4):
            training.step()
        assert training.device.cuda_graphs == cuda_graphs
        assert training.device.replays == replays + 4 * 2 * len(training.layers)


def peak_of_plain_step(count: int) -> int:
    """Returns the cells of an eager step whose caller keeps the result, the weight and the gradients."""
    device = ArenaGraphs()
    forward, backward = (each.on(device) for each in layers(count))
    weight = device.array([1] * SIZE)
    args = [device.array([2] * SIZE), weight]
    _, *args = forward(args)
    args += [device.array([3] * SIZE), weight]
    backward(args)
    return device.peak


def test_saved_tensors_are_bound_where_they_are() -> None:
    """Also if their address differs in some of the first calls, since the previous call's result is kept."""
    device = ArenaGraphs()
    device_graphs = DeviceGraphs(device)
    forward, backward = layers(3)
    calls = [
        device_graphs.graphed(forward.on(device), "forward", limit=1, tensors=(0, 1), static=(1,)),
        device_graphs.graphed(
            backward.on(device), "backward", limit=1, tensors=(0, 1, 2, 3), static=(0, 1, 3), given=(0, 1)
        ),
    ]
    weight = device.array([1] * SIZE)
    tangents = []
    for number in range(8):
        result, *args = calls[0]([device.array([number] * SIZE), weight])
        tangents.append(device.array([3] * SIZE))  # each at another address
        calls[1]([*args, tangents[-1], weight])
        del args
    assert device.read(result)
    (known,) = calls[1]._keys.values()
    assert known.copied == frozenset()
    assert known.replay is not None
    assert known.replay.copied == (2,)


@pytest.mark.parametrize("count", [2, 5, 12])
def test_a_step_takes_what_it_needs_and_its_copied_arguments(count: int) -> None:
    """Memory of graphs is at most that of the eager step plus copied arguments: an input and a tangent.

    If backward may not end saved tensors, they are separate.
    """
    sizes = []
    for takes in (True, False):
        device = ArenaGraphs()
        device_graphs = DeviceGraphs(device)
        forward, backward = layers(count)
        saved = (*range(count - 1),)
        graphed = [
            device_graphs.graphed(forward.on(device), "forward", limit=1, tensors=(0, 1), static=(1,)),
            device_graphs.graphed(
                backward.on(device),
                "backward",
                limit=1,
                tensors=(*range(count + 1),),
                static=(*saved, count),
                given=saved if takes else (),
            ),
        ]
        weight = device.array([1] * SIZE)
        given = []  # so that each has another address
        for number in range(8):
            given += [device.array([number] * SIZE), device.array([3] * SIZE)]
            args = [*graphed[0]([given[-2], weight])[1:], given[-1], weight]
            gradients = graphed[1](args)
            del gradients, args
        assert device.replays == 7 + 7
        sizes.append(device.graph_memory.size)
    assert sizes[0] <= peak_of_plain_step(count) + 2 * SIZE
    assert sizes[1] >= sizes[0] + (count - 2) * SIZE


class _WarmOutside(ArenaGraphs):
    """Warm-ups allocate in general memory."""

    def warm_up(self, run: Callable[[], tuple[Array, ...]]) -> tuple[Array, ...]:
        return run()


def memory_of_training(device: ArenaGraphs) -> int:
    """Returns cells outside of the graphs' memory after some steps, of which the first one creates an
    optimizer's state.
    """
    device_graphs = DeviceGraphs(device)
    count, size = 9, 5
    forward, backward = layers(count, size)
    saved = (*range(count - 1),)
    calls = [
        device_graphs.graphed(forward.on(device), "forward", limit=1, tensors=(0, 1), static=(1,)),
        device_graphs.graphed(
            backward.on(device),
            "backward",
            limit=1,
            tensors=(*range(count + 1),),
            static=(*saved, count),
            given=saved,
        ),
    ]
    weight, state = device.array([1] * size), list[Array]()
    for number in range(5):
        x, tangent = device.array([number] * size), device.array([3] * size)
        gradients = calls[1]([*calls[0]([x, weight])[1:], tangent, weight])
        del x, tangent
        state = state or [device.empty(size) for _ in gradients for _ in range(2)]
        del gradients
    assert device.replays == 4 * 2
    device.give_back()
    assert device.held == size * (1 + len(state))
    return device.general.size


def test_what_warm_ups_free_is_given_back() -> None:
    """Memory allocated between their ends is not located among it."""
    apart, among = memory_of_training(ArenaGraphs()), memory_of_training(_WarmOutside())
    needed = 17  # arrays of 5 cells, three a segment
    assert apart == -(-needed // 3) * SIZE
    assert among > apart


def test_a_warm_up_that_fails_leaves_nothing() -> None:
    """Nor does its memory become that of the next call, which is captured."""
    device = ArenaGraphs()

    def fails(args: list[Array]) -> tuple[Array, ...]:
        made = device.empty(3)
        if is_failing[0]:
            raise ValueError("no")
        device.run(lambda x: x[:3], made, args.pop())
        return (made,)

    is_failing = [True]
    call = DeviceGraphs(device).graphed(fails, "fails", limit=1, tensors=(0,))
    x = device.array([1, 2, 3])
    with pytest.raises(ValueError, match="no"):
        call([x])
    assert device.held == 3
    is_failing[0] = False
    for _ in range(3):
        (y,) = call([x])
        assert device.read(y) == [1, 2, 3]
        del y
    assert (device.cuda_graphs, device.replays) == (1, 3)
    assert device.reserved == device.general.size + device.graph_memory.size


def test_calls_that_are_not_captured_do_not_warm_up_for_ever() -> None:
    """After a few warm-ups they allocate in general memory; so do keys past the limit."""
    device = ArenaGraphs()
    forward, _ = layers(2)
    call = DeviceGraphs(device).graphed(forward.on(device), "f", limit=2, tensors=(0, 1), static=(0, 1))
    x, weight = device.array([1] * SIZE), device.array([2] * SIZE)
    for scale in (1, 1, 2, 2, 3, 3, 3):
        found = call([x, weight], scale)
    assert device.cuda_graphs == 2
    assert all(device.general.has(each) for each in found)
    device.is_elsewhere = True
    elsewhere = DeviceGraphs(device).graphed(forward.on(device), "f", limit=2, tensors=(0, 1), static=(0, 1))
    where = [device.general.has(elsewhere([x, weight])[0]) for _ in range(5)]
    assert where == [False, False, False, True, True]


def test_a_function_that_is_gone_leaves_nothing_but_what_is_held() -> None:
    device = ArenaGraphs()
    device_graphs = DeviceGraphs(device)
    first, second = (
        device_graphs.graphed(layers(3)[0].on(device), name, limit=1, tensors=(0, 1), static=(0, 1))
        for name in "ab"
    )
    x, weight = device.array([2] * SIZE), device.array([1] * SIZE)
    for call in (first, second):
        for _ in range(2):
            found = call([x, weight])
            del found
    (held, *_) = second([x, weight])
    want = device.read(held)
    del _, second, call
    assert (
        device.graph_memory.size - device.graph_memory.unused == 3 * SIZE + SIZE
    )  # results of the first function, and kept values
    for _ in range(3):
        first([x, weight])
        assert device.read(held) == want
    del held, first
    assert device.graph_memory.unused == device.graph_memory.size
