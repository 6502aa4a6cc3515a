"""Where results of recordings lie: nothing that a caller holds is written over, whatever it holds and calls, and backward's memory is
forward's."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.graphs.arena_graphs import ArenaGraphs, Array
from wrapper_ir.runtime import Recorded, Recorder

_MODULUS = (1 << 31) - 1


def _mix(salt: int, count: int, *inputs: Sequence[int]) -> list[int]:
    """`count` numbers that depend on all inputs and the salt."""
    found = [salt + at for at in range(count)]
    for number, values in enumerate(inputs, 1):
        found = [(x * 31 + number * values[at % len(values)]) % _MODULUS for at, x in enumerate(found)]
    return found


@dataclass(frozen=True)
class Op:
    """Makes a value of `inputs`, and ends those in `ends`."""

    result: int
    count: int
    inputs: tuple[int, ...]
    ends: tuple[int, ...]


@dataclass(frozen=True)
class Straight:
    """A function of values 0 to `params` - 1, and what it returns. `scale` times a number is how large all values are."""

    params: int
    ops: tuple[Op, ...]
    returns: tuple[int, ...]

    def on(self, device: ArenaGraphs) -> Callable[..., tuple[Array, ...]]:
        """As emitted Python is: it empties the list that it is called with, and ends names after their last use."""

        def call(args: list[Array], scale: int = 1) -> tuple[Array, ...]:
            values = dict(enumerate(args))
            args.clear()
            for op in self.ops:
                made = device.empty(op.count * scale)
                device.run(
                    lambda *given, op=op: _mix(op.result, op.count * scale, *given),
                    made,
                    *[values[i] for i in op.inputs],
                )
                values[op.result] = made
                for i in op.ends:
                    del values[i]
            return tuple(values[i] for i in self.returns)

        return call

    def eager(self, args: Sequence[list[int]], scale: int = 1) -> list[list[int]]:
        """Its results, as they should be."""
        values = dict(enumerate(args))
        for op in self.ops:
            values[op.result] = _mix(op.result, op.count * scale, *[values[i] for i in op.inputs])
        return [values[i] for i in self.returns]


def straight(rng: random.Random, params: int, results: int, ended: int) -> Straight:
    """A random function, which ends its first `ended` parameters, and values of its own, as early as it can."""
    count = rng.randint(results + 1, results + 6)
    made = [*range(params, params + count)]
    inputs = {
        v: tuple(rng.sample(range(v), min(v, rng.randint(1, 3))))
        if v > params or rng.random() < 0.5
        else (*range(min(v, 3)),)
        for v in made
    }
    returns = tuple(rng.sample(made, results))
    last = {i: v for v in made for i in inputs[v]}
    ends: dict[int, list[int]] = {}
    for value in (*range(ended), *made):
        if value not in returns:
            ends.setdefault(last.get(value, max(value, params)), []).append(value)
    ops = tuple(Op(v, rng.choice((2, 3, 5, 8, 13)), inputs[v], tuple(ends.get(v, ()))) for v in made)
    return Straight(params, ops, returns)


Held = list[tuple[Array, list[int]]]


@dataclass(frozen=True)
class Layer:
    """A forward function (of an input and a weight), its backward function (of what is saved, a tangent, and the weight), and both as
    they are called."""

    forward: Straight
    backward: Straight
    call_forward: Recorded
    call_backward: Recorded


class Training:
    """Layers that are trained, another function, and a caller that holds what it likes."""

    def __init__(self, seed: int, *, late: bool = False) -> None:
        """`late`: gradients are held until the next forward has been called."""
        self.rng = rng = random.Random(seed)
        self.device = ArenaGraphs()
        self.recorder = Recorder(self.device)
        self.late = late
        self.layers = [self._layer() for _ in range(rng.randint(1, 3))]
        self.other = straight(rng, 2, 2, 1)
        self.call_other = self._recorded(self.other, (1,))
        self.weight = [rng.randrange(99) for _ in range(4)]
        self.parameter = self.device.array(self.weight)
        self.tangent = self.device.empty(3)
        self.held: list[tuple[int, Held]] = []
        self.now = 0

    def _layer(self) -> Layer:
        saved = self.rng.randint(1, 4)
        forward = straight(self.rng, 2, 1 + saved, 1)
        backward = straight(self.rng, saved + 2, self.rng.randint(1, 3), saved + 1)
        static = (*range(saved), saved + 1)
        return Layer(
            forward, backward, self._recorded(forward, (1,)), self._recorded(backward, static, given=saved)
        )

    def _recorded(self, function: Straight, static: tuple[int, ...], given: int = 0) -> Recorded:
        tensors = (*range(function.params),)
        run = function.on(self.device)
        return self.recorder.recorded(
            run, "f", limit=3, tensors=tensors, static=static, given=(*range(given),)
        )

    def call(self, function: Recorded, args: list[Array], wanted: Sequence[list[int]], scale: int) -> Held:
        """Calls a function, whose results are to be these."""
        found = function(args, scale)
        for array, want in zip(found, wanted, strict=True):
            assert self.device.read(array) == want
        return [*zip(found, wanted)]

    def check(self) -> None:
        for _, held in self.held:
            for array, want in held:
                assert self.device.read(array) == want

    def hold(self, values: Held, chance: float) -> None:
        """Keeps some values for a while."""
        kept = [each for each in values if self.rng.random() < chance]
        self.held.append((self.now + self.rng.randint(1, 4), kept))

    def run_forward(self, layer: Layer, scale: int) -> tuple[Held, Held]:
        """The result, and what is saved."""
        x = [self.rng.randrange(99) for _ in range(3)]
        want = layer.forward.eager([x, self.weight], scale)
        out, *saved = self.call(layer.call_forward, [self.device.array(x), self.parameter], want, scale)
        return [out], saved

    def run_backward(self, layer: Layer, saved: Held, scale: int, *, moved: bool) -> Held:
        """Gradients. Autograd holds what was saved until backward returns."""
        values = [self.rng.randrange(99) for _ in range(3)]
        for array, want in saved:
            assert self.device.read(array) == want
        if moved:
            self.tangent = self.device.empty(3)
        self.device.write(self.tangent, values)
        wanted = layer.backward.eager([*(v for _, v in saved), values, self.weight], scale)
        args = [*(a for a, _ in saved), self.tangent, self.parameter]
        return self.call(layer.call_backward, args, wanted, scale)

    def run_other(self, scale: int) -> Held:
        """Another function's results."""
        x = [self.rng.randrange(99) for _ in range(3)]
        want = self.other.eager([x, self.weight], scale)
        return self.call(self.call_other, [self.device.array(x), self.parameter], want, scale)

    def step(self, wildness: float = 0.0, *, moved: bool = False) -> None:
        """One step: mostly forward and backward; with a chance of `wildness` each, what callers do besides. `moved`: what autograd gives
        backward lies elsewhere than before."""
        rng, scale = self.rng, 1
        self.now += 1

        def now_and_then() -> bool:
            return rng.random() < wildness

        if now_and_then():
            scale = rng.randint(2, 3)
        if now_and_then():
            self.weight = [rng.randrange(99) for _ in range(4)]
            self.parameter = self.device.array(self.weight)
        self.device.fails = now_and_then() and now_and_then()
        waiting: list[tuple[Layer, Held]] = []
        for layer in self.layers * (2 if now_and_then() else 1):
            out, saved = self.run_forward(layer, scale)
            self.hold(out, 0.5 if now_and_then() else 0)
            waiting.append((layer, saved))
            del out, saved
            self.check()
            if now_and_then():
                self.hold(self.run_other(scale), 0.5 if now_and_then() else 0)
                self.check()
        self.held = [each for each in self.held if each[0] > self.now]
        if now_and_then():
            rng.shuffle(waiting)
        while waiting:
            layer, saved = waiting.pop()
            if now_and_then():  # an exception, or a loss that is not used
                self.held.append((self.now + rng.randint(1, 3), saved if now_and_then() else []))
                del saved
                continue
            gradients = self.run_backward(layer, saved, scale, moved=moved or now_and_then())
            del saved
            self.check()
            if self.late:
                self.held.append((self.now + 1, gradients))
            else:
                self.hold(gradients, 0.5 if now_and_then() else 0)
            del gradients
        self.check()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("wildness", [0.0, 0.02, 0.1, 0.4])
def test_nothing_that_is_held_is_written_over(wildness: float, late: bool) -> None:
    replays = recordings = 0
    for seed in range(12):
        training = Training(seed, late=late)
        for _ in range(50):
            training.step(wildness)
        replays += training.device.replays
        recordings += training.device.recordings
    assert replays > recordings * (10 if wildness < 0.01 else 2)


def test_backward_recorded_anew_reads_what_forward_saved() -> None:
    """Its memory was taken by the first recording of backward, so that a second one may not have it from the beginning."""
    for seed in range(20):
        training = Training(seed)
        for number in range(16):
            training.step(moved=number == 6)
        recordings = training.device.recordings
        replays = training.device.replays
        for _ in range(4):
            training.step()
        assert training.device.recordings == recordings
        assert training.device.replays == replays + 4 * 2 * len(training.layers)


_SIZE = 16
"""Cells of each value of `layers`: a segment of the arena."""


def layers(count: int) -> tuple[Straight, Straight]:
    """Forward saves what each layer is given; backward makes a gradient for each, and ends what was saved."""
    forward = [Op(2 + i, _SIZE, (0 if i == 0 else 1 + i, 1), (0,) if i == 0 else ()) for i in range(count)]
    saved = count - 1
    tangent, weight = saved, saved + 1
    backward: list[Op] = []
    last, fresh = tangent, weight + 1
    for i in reversed(range(saved)):
        backward.append(Op(fresh, _SIZE, (i, last), ()))  # the gradient of a weight
        backward.append(Op(fresh + 1, _SIZE, (last, weight), (last, i)))
        last, fresh = fresh + 1, fresh + 2
    returns = tuple(op.result for op in backward[::2])
    return (
        Straight(2, tuple(forward), (1 + count, *range(2, 1 + count))),
        Straight(saved + 2, tuple(backward), returns),
    )


def peak_of_plain_step(count: int) -> int:
    """Cells that the functions need as they are, in a step whose caller holds the result, the weight and the gradients."""
    device = ArenaGraphs()
    forward, backward = (each.on(device) for each in layers(count))
    weight = device.array([1] * _SIZE)
    args = [device.array([2] * _SIZE), weight]
    _, *args = forward(args)
    args += [device.array([3] * _SIZE), weight]
    backward(args)
    return device.peak


def test_saved_tensors_are_bound_where_they_are() -> None:
    """Also where they lie elsewhere in some of the first calls, since the result of the call before is held."""
    device = ArenaGraphs()
    recorder = Recorder(device)
    forward, backward = layers(3)
    calls = [
        recorder.recorded(forward.on(device), "forward", limit=1, tensors=(0, 1), static=(1,)),
        recorder.recorded(
            backward.on(device), "backward", limit=1, tensors=(0, 1, 2, 3), static=(0, 1, 3), given=(0, 1)
        ),
    ]
    weight = device.array([1] * _SIZE)
    for number in range(8):
        result, *args = calls[0]([device.array([number] * _SIZE), weight])
        calls[1]([*args, device.array([3] * _SIZE), weight])
        del args
    assert device.read(result)
    (known,) = calls[1]._keys.values()
    assert known.copied == frozenset()
    assert known.replay is not None
    assert known.replay.copied == (2,)


@pytest.mark.parametrize("count", [2, 5, 12])
def test_a_step_takes_what_it_needs_and_its_copied_arguments(count: int) -> None:
    """All memory of recordings is at most what the step needs as it is, and the arguments that are copied: an input and a tangent.
    Where backward may not end what was saved, it lies apart."""
    sizes = []
    for takes in (True, False):
        device = ArenaGraphs()
        recorder = Recorder(device)
        forward, backward = layers(count)
        saved = (*range(count - 1),)
        recorded = [
            recorder.recorded(forward.on(device), "forward", limit=1, tensors=(0, 1), static=(1,)),
            recorder.recorded(
                backward.on(device),
                "backward",
                limit=1,
                tensors=(*range(count + 1),),
                static=(*saved, count),
                given=saved if takes else (),
            ),
        ]
        weight = device.array([1] * _SIZE)
        for number in range(8):
            args = [
                *recorded[0]([device.array([number] * _SIZE), weight])[1:],
                device.array([3] * _SIZE),
                weight,
            ]
            gradients = recorded[1](args)
            del gradients, args
        assert device.replays == 7 + 6
        sizes.append(device.arena)
    assert sizes[0] <= peak_of_plain_step(count) + 2 * _SIZE
    assert sizes[1] >= sizes[0] + (count - 2) * _SIZE


def test_a_function_that_is_gone_leaves_nothing_but_what_is_held() -> None:
    device = ArenaGraphs()
    recorder = Recorder(device)
    first, second = (
        recorder.recorded(layers(3)[0].on(device), name, limit=1, tensors=(0, 1), static=(0, 1))
        for name in "ab"
    )
    x, weight = device.array([2] * _SIZE), device.array([1] * _SIZE)
    for call in (first, second):
        for _ in range(2):
            found = call([x, weight])
            del found
    (held, *_) = second([x, weight])
    want = device.read(held)
    del _, second, call
    assert (
        device.arena - device.unused == 3 * _SIZE + _SIZE
    )  # results of the first function, and what is held
    for _ in range(3):
        first([x, weight])
        assert device.read(held) == want
    del held, first
    assert device.unused == device.arena
