"""Matmuls whose kernels are launched again, on a device: the same bits as torch's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from wrapper_ir_torch import repeated_operator

pytestmark = pytest.mark.gpu

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
Operands = tuple[str, tuple[Tensor, ...], dict[str, Any]]  # Any: torch's numbers


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    yield
    torch.set_float32_matmul_precision("highest")


def operands(dtype: torch.dtype) -> Iterator[Operands]:
    """Operands of each matmul, small and large, row-major and column-major."""
    for m, n, k in ((8, 64, 64), (64, 2304, 768), (1, 7, 13), (512, 512, 512)):
        a, b = (torch.randn(*s, device="cuda").to(dtype) for s in ((m, k), (k, n)))
        row, full = (torch.randn(*s, device="cuda").to(dtype) for s in ((n,), (m, n)))
        turned = torch.randn(n, k, device="cuda").to(dtype).t()
        yield "aten::mm.out", (a, b), {}
        yield "aten::mm.out", (a, turned), {}
        yield "aten::addmm.out", (row, a, b), {}
        yield "aten::addmm.out", (row, a, turned), {}
        yield "aten::addmm.out", (full, a, b), {"beta": 0.5, "alpha": 2}
    x, y, z = (torch.randn(3, 32, 32, device="cuda").to(dtype) for _ in range(3))
    yield "aten::bmm.out", (x, y), {}
    yield "aten::baddbmm.out", (z, x, y), {}


def new_stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own


def function(name: str) -> Callable[..., Tensor]:
    found: Callable[..., Tensor] = getattr(torch, name[6:-4])
    return found


def result(name: str, args: tuple[Tensor, ...]) -> Tensor:
    return torch.empty_like(function(name)(*args))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("precision_", ["highest", "high"])
def test_the_same_bits(dtype: torch.dtype, precision_: str) -> None:
    torch.set_float32_matmul_precision(precision_)
    for name, args, kwargs in operands(dtype):
        run, out = repeated_operator(name, "cuda:0", 1), result(name, args)
        expected = function(name)(*args, **kwargs)
        for _ in range(4):
            out.fill_(7)
            run(*args, **kwargs, out=out)
            assert torch.equal(out, expected)


def test_kernels_are_launched_without_torch() -> None:
    """The profiler sees torch's operators and their kernels; of a repeated call it sees kernels."""
    for name, args, kwargs in operands(torch.float32):
        run, out = repeated_operator(name, "cuda:0", 1), result(name, args)
        seen = []
        for repeat in (False, True):
            for _ in range(3):
                run(*args, **kwargs, out=out)
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
                for _ in range(3):
                    (run if repeat else function(name))(*args, **kwargs, out=out)
                torch.cuda.synchronize()
            events = found.events()
            seen.append(
                (
                    sum(e.name.startswith("aten::") for e in events),
                    sorted(e.name for e in events if str(e.device_type).endswith("CUDA")),
                )
            )
        assert seen[0][0] > 0
        assert seen[1][0] == 0, name
        assert seen[0][1] == seen[1][1], name


def test_settings_streams_and_cleared_workspaces() -> None:
    a, b = torch.randn(64, 3072, device="cuda"), torch.randn(3072, 768, device="cuda")
    out = torch.empty(64, 768, device="cuda")
    run = repeated_operator("aten::mm.out", "cuda:0", 1)
    expected = {}
    for precision_ in ("highest", "high"):
        torch.set_float32_matmul_precision(precision_)
        expected[precision_] = a @ b
    assert not torch.equal(*expected.values())
    streams = [new_stream() for _ in range(3)]
    for _ in range(6):
        for precision_, want in expected.items():
            torch.set_float32_matmul_precision(precision_)
            run(a, b, out=out)
            assert torch.equal(out, want)
        for stream in streams:
            with torch.cuda.stream(stream):
                torch.set_float32_matmul_precision("highest")
                mine = torch.empty_like(out)
                run(a, b, out=mine)
            stream.synchronize()
            assert torch.equal(mine, expected["highest"])
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        filler = [torch.full((1 << 22,), 3.0, device="cuda") for _ in range(8)]
        run(a, b, out=out)
        assert torch.equal(out, expected["highest"])
        assert all(bool((f == 3).all()) for f in filler), "no workspace lies in memory that was given away"


def test_streams_at_the_same_time() -> None:
    """Split matmuls need workspaces: those of several streams are separate."""
    run = repeated_operator("aten::mm.out", "cuda:0", 8)
    work = []
    for _ in range(4):
        a, b = torch.randn(64, 3072, device="cuda"), torch.randn(3072, 768, device="cuda")
        work.append((new_stream(), a, b, torch.empty(64, 768, device="cuda"), a @ b))
    torch.cuda.synchronize()
    wrong: list[int] = []

    def use(stream: torch.cuda.Stream, a: Tensor, b: Tensor, out: Tensor, want: Tensor) -> None:
        with torch.cuda.stream(stream):
            for _ in range(300):
                run(a, b, out=out)
                wrong.append(int((out != want).sum()))

    threads = [threading.Thread(target=use, args=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 1200
    assert not any(wrong)


def test_modes_see_what_is_asked_for() -> None:
    a, b, out = (torch.randn(64, 64, device="cuda") for _ in range(3))
    run = repeated_operator("aten::mm.out", "cuda:0", 1)
    for _ in range(4):
        run(a, b, out=out)
    with FlopCounterMode(display=False) as counter:
        for _ in range(4):
            run(a, b, out=out)
    assert counter.get_total_flops() == 4 * 2 * 64**3


def test_inside_of_a_graph() -> None:
    a, b, out = (torch.randn(64, 64, device="cuda") for _ in range(3))
    run = repeated_operator("aten::mm.out", "cuda:0", 1)
    for _ in range(3):
        run(a, b, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(a, b, out=out)
    a.copy_(torch.randn(64, 64))
    graph.replay()
    assert torch.equal(out, a @ b)


@pytest.mark.parametrize("emitter", ["python", "fx"])
def test_compiled_models(emitter: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(64, 64), nn.ReLU()))).cuda()
    compiled = torch.compile(model, backend="wrapper_ir", options={"emitter": emitter}, dynamic=True)
    for rows in (8, 16, 8, 16, 8, 16, 32, 32):
        x = torch.randn(rows, 64, device="cuda")
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
        loss = compiled(x).square().mean()
        loss.backward()
        found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
        model(x).square().mean().backward()
        torch.testing.assert_close(found, [p.grad for p in model.parameters()])
        model.zero_grad()


def test_in_a_pool_of_the_caller() -> None:
    """Torch allocates from the pool that a thread used first.

    A workspace there would be reused as soon as it is freed.
    """
    pool = torch.cuda.MemPool()
    call = repeated_operator("aten::mm.out", "cuda:0", 1)
    a, b = torch.randn(8, 8192, device="cuda"), torch.randn(8192, 64, device="cuda")
    out, want = torch.empty(8, 64, device="cuda"), a @ b
    with torch.cuda.use_mem_pool(pool):
        for _ in range(3):
            call(a, b, out=out)
        others = [torch.full((1 << 20,), 7, dtype=torch.uint8, device="cuda") for _ in range(100)]
        for _ in range(3):
            call(a, b, out=out)
        torch.testing.assert_close(out, want, rtol=1e-3, atol=1e-2)
        assert all(bool((each == 7).all()) for each in others)
