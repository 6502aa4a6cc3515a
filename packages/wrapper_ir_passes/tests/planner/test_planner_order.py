"""Orders of tasks: valid, never with a higher peak, and optimal for few tasks."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from wrapper_ir_passes.planner import OrderProblem, SharedBuffer, Task, lower_peak, peaks


def _random(rng: random.Random, count: int) -> OrderProblem:
    """Returns tasks with one buffer each, which some later tasks use; some overwrite their last operand."""
    buffers = [SharedBuffer(0, ())] * count
    users: list[list[int]] = [[i] for i in range(count)]
    tasks = []
    for i in range(count):
        after = tuple(sorted(rng.sample(range(max(0, i - 12), i), min(i, rng.randint(0, 2)))))
        for a in after:
            users[a].append(i)
        over = tuple((i, a) for a in after if rng.random() < 0.3)
        tasks.append(Task(after, rng.choice((0, 0, 3)), over))
    for i in range(count):
        buffers[i] = SharedBuffer(
            rng.randint(1, 9),
            tuple(users[i]),
            from_start=rng.random() < 0.1,
            to_end=rng.random() < 0.3 / count,
        )
    return OrderProblem(tuple(tasks), tuple(buffers))


def _orders(problem: OrderProblem, order: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Yields all valid orders."""
    if len(order) == len(problem.tasks):
        yield order
    for i, task in enumerate(problem.tasks):
        if i not in order and set(task.after) <= set(order):
            yield from _orders(problem, (*order, i))


def _is_allowed(problem: OrderProblem, order: tuple[int, ...]) -> bool:
    at = {task: position for position, task in enumerate(order)}
    return sorted(order) == list(range(len(problem.tasks))) and all(
        at[a] < at[i] for i, task in enumerate(problem.tasks) for a in task.after
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_lowest_of_all_orders(seed: int) -> None:
    problem = _random(random.Random(seed), 7)
    order = lower_peak(problem)
    assert _is_allowed(problem, order)
    assert max(peaks(problem, order)) == min(max(peaks(problem, o)) for o in _orders(problem))


@pytest.mark.parametrize("count", [60, 300])
def test_lower_than_given(count: int) -> None:
    """Also in windows whose buffers are used before and after."""
    problem = _random(random.Random(1), count)
    order = lower_peak(problem)
    assert _is_allowed(problem, order)
    assert max(peaks(problem, order)) < max(peaks(problem, range(count)))


def test_nothing_to_order() -> None:
    assert lower_peak(OrderProblem((), ())) == ()
    assert lower_peak(OrderProblem((Task(),), ())) == (0,)


def test_what_needs_no_order_keeps_its_own() -> None:
    problem = OrderProblem((Task(), Task()), (SharedBuffer(4, (0,)), SharedBuffer(4, (1,))))
    assert lower_peak(problem) == (0, 1)
