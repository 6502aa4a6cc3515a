"""Attention whose kernels are launched again, on a device: the same bits as torch's, in results of each
call's own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from wrapper_ir_torch import repeated_operator

pytestmark = pytest.mark.gpu

EFFICIENT, FLASH = (f"aten::_scaled_dot_product_{kind}_attention" for kind in ("efficient", "flash"))
Call = tuple[str, tuple[Any, ...], dict[str, Any]]  # Any: an operator's arguments


def function(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(torch.ops.aten, name.removeprefix("aten::")).default
    return found


def operands(dtype: torch.dtype, layout: str, length: int = 64) -> tuple[Tensor, ...]:
    """Returns q, k, v of 2 x 12 heads: separate, or three windows of one tensor, as from a layer that
    computes all of them.
    """
    shape = (2, length, 12, 64)
    if layout == "packed":
        parts = torch.randn(2, length, 3 * 768, device="cuda").to(dtype).chunk(3, dim=2)
        return tuple(part.view(shape).transpose(1, 2) for part in parts)
    return tuple(torch.randn(shape, device="cuda").to(dtype).transpose(1, 2) for _ in range(3))


def calls(dtype: torch.dtype, layout: str) -> Iterator[Call]:
    """Forward and backward of each kind, with a bias and without, causal and not."""
    q, k, v = operands(dtype, layout)
    bias = torch.randn(2, 12, 64, 64, device="cuda").to(dtype)
    for mask, causal in ((None, False), (None, True), (bias, False)):
        args = (q, k, v, mask, True, 0.0, causal)
        yield EFFICIENT, args, {"scale": 0.125}
        out, lse, seed, offset = function(EFFICIENT)(*args, scale=0.125)
        back: tuple[Any, ...] = (torch.randn_like(out), q, k, v, mask, out, lse, seed, offset, 0.0)
        yield f"{EFFICIENT}_backward", (*back, [True, True, True, mask is not None], causal), {"scale": 0.125}
    yield EFFICIENT, (q, k, v, None, False), {}
    if dtype == torch.float32:
        return
    for causal in (False, True):
        yield FLASH, (q, k, v, 0.0, causal), {"scale": 0.125}
        out, lse, cq, ck, mq, mk, seed, offset, _ = function(FLASH)(q, k, v, 0.0, causal, scale=0.125)
        back = (torch.randn_like(out), q, k, v, out, lse, cq, ck, mq, mk, 0.0, causal, seed, offset)
        yield f"{FLASH}_backward", back, {"scale": 0.125}


def same(found: Any, expected: Any, exact: bool) -> None:
    assert type(found) is type(expected)
    if not isinstance(found, Tensor):
        assert found == expected
        return
    layout = (expected.shape, expected.stride(), expected.dtype, expected.device)
    assert (found.shape, found.stride(), found.dtype, found.device) == layout
    if exact and found.is_floating_point():
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def ran(run: Callable[[], object]) -> tuple[int, list[str]]:
    """Returns the number of called operators of torch other than those for memory, and the kernels that run."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        run()
        torch.cuda.synchronize()
    names = [e.name for e in found.events() if not str(e.device_type).endswith("CUDA")]
    return (
        sum("attention" in name for name in names),
        sorted(e.name for e in found.events() if str(e.device_type).endswith("CUDA")),
    )


@pytest.mark.parametrize("layout", ["apart", "packed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_same_bits(dtype: torch.dtype, layout: str) -> None:
    for name, args, kwargs in calls(dtype, layout):
        run = repeated_operator(name, "cuda:0", 1)
        torch_call = function(name)
        expected, other = torch_call(*args, **kwargs), torch_call(*args, **kwargs)
        exact = [  # backward may add up in any order
            not isinstance(a, Tensor) or not a.is_floating_point() or torch.equal(a, b)
            for a, b in zip(expected, other)
        ]
        held = [run(*args, **kwargs) for _ in range(6)]
        for results in held:
            assert len(results) == len(expected)
            for found, want, is_exact in zip(results, expected, exact):
                same(found, want, is_exact)
                if isinstance(found, Tensor) and found.is_floating_point():
                    torch.testing.assert_close(found, want, rtol=1e-2, atol=1e-2)
        begins = [results[0].untyped_storage().data_ptr() for results in held]
        assert len(set(begins)) == len(held), "each call has results of its own"
        asked, kernels = ran(lambda: run(*args, **kwargs))  # noqa: B023
        plain, wanted = ran(lambda: torch_call(*args, **kwargs))  # noqa: B023
        assert plain > 0
        assert (asked, kernels) == (0, wanted), name


def test_results_are_memory_of_the_callers() -> None:
    """Earlier results stay valid, whatever later calls compute; and no memory is kept for a caller that drops
    its results.
    """
    q, k, v = operands(torch.float16, "apart")
    run = repeated_operator(FLASH, "cuda:0", 1)
    for _ in range(3):
        run(q, k, v)
    held = []
    for number in range(8):
        q.fill_(number)
        v.fill_(number)
        held.append(run(q, k, v)[0])
    for number, result in enumerate(held):
        assert bool((result == number).all())
    del result
    held.clear()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(100):
        run(q, k, v)
    assert torch.cuda.memory_allocated() == before


def test_streams_and_threads() -> None:
    run = repeated_operator(EFFICIENT, "cuda:0", 8)
    work = []
    for _ in range(4):
        q, k, v = operands(torch.float32, "packed")
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
        work.append((stream, q, k, v, function(EFFICIENT)(q, k, v, None, True)[0]))
    torch.cuda.synchronize()
    wrong: list[int] = []

    def use(stream: torch.cuda.Stream, q: Tensor, k: Tensor, v: Tensor, want: Tensor) -> None:
        with torch.cuda.stream(stream):
            for _ in range(200):
                wrong.append(int((run(q, k, v, None, True)[0] != want).sum()))

    threads = [threading.Thread(target=use, args=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 800
    assert not any(wrong)


def test_large_results_are_torchs() -> None:
    run = repeated_operator(FLASH, "cuda:0", 1)
    for length, is_torchs in ((64, False), (8192, True)):
        q, k, v = operands(torch.float16, "apart", length)
        for _ in range(3):
            run(q, k, v)
        assert (ran(lambda: run(q, k, v))[0] > 0) == is_torchs  # noqa: B023


def test_inside_of_a_graph() -> None:
    q, k, v = operands(torch.float32, "apart")
    run = repeated_operator(EFFICIENT, "cuda:0", 1)
    for _ in range(3):
        run(q, k, v, None, False)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run(q, k, v, None, False)[0]
    q.copy_(torch.randn(q.shape))
    graph.replay()
    assert torch.equal(out, function(EFFICIENT)(q, k, v, None, False)[0])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(128, 384), nn.Linear(128, 128)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (4, 32)).transpose(-3, -2) for part in self.project(x).chunk(3, dim=-1))
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.out(found.transpose(-3, -2).flatten(-2))
        return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_compiled_models(emitter: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(Attention() for _ in range(3))).cuda().to(dtype)
    compiled = torch.compile(model, backend="wrapper_ir", options={"emitter": emitter}, dynamic=True)
    tolerance = 1e-4 if dtype == torch.float32 else 3e-2
    for length in (16, 24, 16, 24, 16, 24, 40, 40, 40):
        x = torch.randn(2, length, 128, device="cuda", dtype=dtype)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x), rtol=tolerance, atol=tolerance)
        compiled(x).square().mean().backward()
        found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
        model(x).square().mean().backward()
        expected = [p.grad for p in model.parameters()]
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
        model.zero_grad()
