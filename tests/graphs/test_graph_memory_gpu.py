"""Memory of CUDA graphs on a GPU: kept values are not overwritten, and backward's results reuse forward's
memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from wrapper_ir_runtime import DeviceGraphs, GraphedFunction
from wrapper_ir_torch import TorchGraphs

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]

_MIB = 1 << 20
_COUNT, _SIZE = 16, _MIB
"""Number of tensors that forward saves, and their elements: 4 MiB each."""

Function = Callable[..., tuple[Tensor, ...]]


def forward(args: list[Tensor]) -> tuple[Tensor, ...]:
    """Returns a result, and the tensors that backward needs."""
    x, weight = args
    args.clear()
    saved = [x + number for number in range(_COUNT)]
    return (saved[-1] * weight, *saved)


def backward(args: list[Tensor]) -> tuple[Tensor, ...]:
    """Ends each saved tensor when it has used it."""
    *saved, tangent = args
    args.clear()
    found: list[Tensor] = []
    while saved:
        matmul = saved.pop() * tangent
        found.append(matmul + 1)
        del matmul
    return tuple(found)


def eager(x: Tensor, tangent: Tensor) -> list[Tensor]:
    return [(x + number) * tangent + 1 for number in reversed(range(_COUNT))]


class Step:
    """Both functions, captured on a separate device object."""

    def __init__(self, *, given: bool) -> None:
        self.device = TorchGraphs("cuda:0")
        device_graphs = DeviceGraphs(self.device)
        self.forward = device_graphs.graphed(forward, "forward", limit=4, tensors=(0, 1), static=(1,))
        saved = (*range(_COUNT),)
        self.backward = device_graphs.graphed(
            backward,
            "backward",
            limit=4,
            tensors=(*saved, _COUNT),
            static=saved,
            given=saved if given else (),
        )
        self.weight = torch.full((_SIZE,), 2.0, device="cuda")

    def __call__(self, seed: float) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Returns the result, the gradients, and their expected values."""
        x, tangent = (torch.full((_SIZE,), seed + more, device="cuda") for more in (0.0, 0.5))
        result, *saved = self.forward([x, self.weight])
        found = self.backward([*saved, tangent])
        return result, [*found], eager(x, tangent)

    def pool(self) -> int:
        """Bytes."""
        return sum(end - begin for begin, end in self.device.memory())


def cuda_graphs(*functions: GraphedFunction[Tensor]) -> int:
    return sum(known.replay is not None for f in functions for known in f._keys.values())


def test_backward_takes_the_memory_of_what_forward_saved() -> None:
    sizes = []
    for given in (False, True):
        step = Step(given=given)
        for number in range(12):
            result, found, want = step(float(number))
            torch.testing.assert_close(found, want, rtol=0, atol=0)
            torch.testing.assert_close(result, 2.0 * torch.full_like(result, number + _COUNT - 1))
            del result, found, want
        assert cuda_graphs(step.forward, step.backward) == 2
        sizes.append(step.pool() // _MIB)
    apart, shared = sizes
    assert apart >= 2 * 4 * _COUNT
    assert shared <= 4 * _COUNT + 48, sizes


def test_gradients_that_are_held_while_forward_runs() -> None:
    step = Step(given=True)
    held: list[tuple[list[Tensor], list[Tensor]]] = []
    for number in range(24):
        result, found, want = step(float(number))
        held.append((found, want))
        del result, found, want
        for each in held:
            torch.testing.assert_close(*each, rtol=0, atol=0)
        if number % 3 == 2:
            held.clear()


def test_saved_tensors_of_two_steps() -> None:
    step = Step(given=True)
    for number in range(16):
        x, tangent = (torch.full((_SIZE,), number + more, device="cuda") for more in (0.0, 0.5))
        passes = [step.forward([x + more, step.weight])[1:] for more in range(2 if number > 8 else 1)]
        for more, saved in reversed([*enumerate(passes)]):
            found = step.backward([*saved, tangent])
            torch.testing.assert_close([*found], eager(x + more, tangent), rtol=0, atol=0)
            del saved, found
        del passes


def test_a_result_that_is_held_while_an_earlier_graph_runs() -> None:
    """Its memory is scratch memory of the earlier graph."""
    device_graphs = DeviceGraphs(TorchGraphs("cuda:0"))

    def first(args: list[Tensor]) -> tuple[Tensor, ...]:
        (x,) = args
        args.clear()
        return ((x * 3 + 1).sum(),)

    def second(args: list[Tensor]) -> tuple[Tensor, ...]:
        (x,) = args
        args.clear()
        return (x + 5,)

    calls = [device_graphs.graphed(f, f.__name__, limit=4, tensors=(0,)) for f in (first, second)]
    x = torch.ones(_SIZE, device="cuda")
    for call in calls:
        for _ in range(3):
            call([x])
    for _ in range(6):
        (held,) = calls[1]([x])
        calls[0]([x])
        torch.testing.assert_close(held, x + 5, rtol=0, atol=0)
        del held


def general_memory() -> int:
    """Returns bytes of torch's segments outside of pools, after it has released free ones."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    segments = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]  # torch's own
    return sum(s["total_size"] for s in segments if tuple(s["segment_pool_id"]) == (0, 0))


def test_what_warm_ups_free_is_given_back() -> None:
    """Also where a first step leaves an optimizer's state, which is allocated while gradients are there."""
    step, state = Step(given=True), list[Tensor]()
    before = general_memory()
    for number in range(6):
        result, found, want = step(float(number))
        torch.testing.assert_close(found, want, rtol=0, atol=0)
        state = state or [torch.zeros_like(found[0]) for _ in range(2 * _COUNT)]
        del result, found, want
    assert len(state) == 2 * _COUNT
    assert general_memory() - before <= 2 * _COUNT * 4 * _MIB + 20 * _MIB


def test_results_of_warm_ups_that_are_kept_for_ever() -> None:
    """Their memory returns to the device around them, while graphs are captured and replayed."""
    device_graphs = DeviceGraphs(TorchGraphs("cuda:0"))

    def function(args: list[Tensor], scale: int) -> tuple[Tensor, ...]:
        (x,) = args
        args.clear()
        return (x * scale, (x + scale) * 2)

    call = device_graphs.graphed(function, "function", limit=8, tensors=(0,))
    x = torch.arange(_SIZE, device="cuda", dtype=torch.float32)
    held = []
    for _ in range(4):
        for scale in range(6):
            found = call([x], scale)
            held.append((scale, found[scale % 2]))
            del found
    assert cuda_graphs(call) == 6
    for scale, each in held:
        want = (x + scale) * 2 if scale % 2 else x * scale
        torch.testing.assert_close(each, want, rtol=0, atol=0)


def test_warm_ups_in_each_other_and_in_two_threads() -> None:
    device = TorchGraphs("cuda:0")

    def double(x: Tensor) -> tuple[Tensor, ...]:
        return (x * 2,)

    def outer() -> tuple[Tensor, ...]:
        found: list[Tensor] = []
        thread = threading.Thread(target=lambda: found.extend(device.warm_up(lambda: double(x + 1))))
        thread.start()
        thread.join(60)
        return (*found, *device.warm_up(lambda: double(x)))

    x = torch.ones(_SIZE, device="cuda")
    there, here = device.warm_up(outer)
    torch.testing.assert_close(there, (x + 1) * 2, rtol=0, atol=0)
    torch.testing.assert_close(here, x * 2, rtol=0, atol=0)
    device.capture(lambda: double(x))
    torch.testing.assert_close(here, x * 2, rtol=0, atol=0)


def test_what_a_warm_up_has_freed_serves_others_where_memory_is_short() -> None:
    device = TorchGraphs("cuda:0")
    large = 256 * _MIB
    device.warm_up(lambda: (torch.empty(large, dtype=torch.uint8, device="cuda").sum(),))
    torch.cuda.synchronize()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 32 * _MIB) / total)
    try:
        made = torch.full((large,), 3, dtype=torch.uint8, device="cuda")
        x = torch.ones(_SIZE, device="cuda")
        device.capture(lambda: (x * 2,))
        assert bool((made == 3).all())
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


_OTHER_ALLOCATOR = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).cuda()
x = torch.randn(8, 64, device="cuda")
for options in ({"cuda_graphs": 4}, {}):
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="wrapper_ir", options=options)
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-3, atol=1e-3)
print("equal", torch.cuda.get_allocator_backend())
"""


def test_an_allocator_without_pools() -> None:
    """Functions run eagerly, and torch computes matmuls."""
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _OTHER_ALLOCATOR],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert "equal cudaMallocAsync" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_matmul_that_is_added_up_where_it_lies(dtype: torch.dtype) -> None:
    """The same bits, and nothing is copied or allocated."""
    for m, n, k in ((64, 64, 64), (1000, 96, 40)):
        added, a, b = (torch.randn(*size, device="cuda").to(dtype) for size in ((m, n), (m, k), (k, n)))
        torch.mm(a, b)  # the workspace is there
        want, place = torch.addmm(added, a, b), added.clone()
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        torch.addmm(place, a, b, out=place)
        assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
        torch.testing.assert_close(place, want, rtol=0, atol=0)
