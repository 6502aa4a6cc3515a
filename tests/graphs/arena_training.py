"""Functions on a simulated device, and callers that train with them and keep arbitrary results."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.graphs.arena_graphs import ArenaGraphs, Array
from wrapper_ir_runtime import DeviceGraphs, GraphedFunction

SIZE = 16
"""Cells of each value of `layers`: a segment of the arena."""


_MODULUS = (1 << 31) - 1


def _mix(salt: int, count: int, *inputs: Sequence[int]) -> list[int]:
    """`count` numbers that depend on all inputs and the salt."""
    found = [salt + at for at in range(count)]
    for number, values in enumerate(inputs, 1):
        found = [(x * 31 + number * values[at % len(values)]) % _MODULUS for at, x in enumerate(found)]
    return found


@dataclass(frozen=True)
class Op:
    """Computes a value from `inputs`, and ends those in `ends`."""

    result: int
    count: int
    inputs: tuple[int, ...]
    ends: tuple[int, ...]


@dataclass(frozen=True)
class Straight:
    """A function of values 0 to `params` - 1, and its results.

    All values have the size `scale` times a number.
    """

    params: int
    ops: tuple[Op, ...]
    returns: tuple[int, ...]

    def on(self, device: ArenaGraphs) -> Callable[..., tuple[Array, ...]]:
        """As emitted Python is: it empties the list that it is called with, and ends names after their last
        use.
        """

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
    """Returns a random function, which ends its first `ended` parameters, and its own values, as early as it
    can.
    """
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
    """A forward function (of an input and a weight), its backward function (of saved values, a tangent, and
    the weight), and both as callables.
    """

    forward: Straight
    backward: Straight
    call_forward: GraphedFunction[Array]
    call_backward: GraphedFunction[Array]


class Training:
    """Layers under training, another function, and a caller that keeps arbitrary results."""

    def __init__(self, seed: int, *, late: bool = False, device: ArenaGraphs | None = None) -> None:
        """`late`: gradients are kept until the next forward has been called."""
        self.rng = rng = random.Random(seed)
        self.device = device or ArenaGraphs()
        self.device_graphs = DeviceGraphs(self.device)
        self.late = late
        self.layers = [self._layer() for _ in range(rng.randint(1, 3))]
        self.other = straight(rng, 2, 2, 1)
        self.call_other = self._graphed(self.other, (1,))
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
            forward, backward, self._graphed(forward, (1,)), self._graphed(backward, static, given=saved)
        )

    def _graphed(self, function: Straight, static: tuple[int, ...], given: int = 0) -> GraphedFunction[Array]:
        tensors = (*range(function.params),)
        run = function.on(self.device)
        return self.device_graphs.graphed(
            run, "f", limit=3, tensors=tensors, static=static, given=(*range(given),)
        )

    def call(
        self, function: GraphedFunction[Array], args: list[Array], wanted: Sequence[list[int]], scale: int
    ) -> Held:
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
        self.held.append((self.now + self.rng.choice((1, 2, 3, 4, 1 << 20)), kept))

    def run_forward(self, layer: Layer, scale: int) -> tuple[Held, Held]:
        """Returns the result, and the saved values."""
        x = [self.rng.randrange(99) for _ in range(3)]
        want = layer.forward.eager([x, self.weight], scale)
        out, *saved = self.call(layer.call_forward, [self.device.array(x), self.parameter], want, scale)
        return [out], saved

    def run_backward(self, layer: Layer, saved: Held, scale: int, *, moved: bool) -> Held:
        """Returns gradients. Autograd keeps saved values until backward returns."""
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
        """Runs one step: mostly forward and backward.

        With a chance of `wildness` each, other actions of callers. `moved`: autograd passes tensors at other
        addresses than before.
        """
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


def layers(count: int, size: int = SIZE) -> tuple[Straight, Straight]:
    """Forward saves each layer's input; backward computes a gradient for each, and ends the saved values."""
    forward = [Op(2 + i, size, (0 if i == 0 else 1 + i, 1), (0,) if i == 0 else ()) for i in range(count)]
    saved = count - 1
    tangent, weight = saved, saved + 1
    backward: list[Op] = []
    last, fresh = tangent, weight + 1
    for i in reversed(range(saved)):
        backward.append(Op(fresh, size, (i, last), ()))  # the gradient of a weight
        backward.append(Op(fresh + 1, size, (last, weight), (last, i)))
        last, fresh = fresh + 1, fresh + 2
    returns = tuple(op.result for op in backward[::2])
    return (
        Straight(2, tuple(forward), (1 + count, *range(2, 1 + count))),
        Straight(saved + 2, tuple(backward), returns),
    )
