"""Products and comparisons of addresses by the launcher's native code, on tensors of a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from packages.triton_runtime.tests.tr_fake_cuda import FakeCuda
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from triton_runtime.cuda.calls import address_check, product
from triton_runtime.cuda.extension import Extension

Product = Callable[..., Tensor]


@pytest.fixture
def extension(fake: FakeCuda) -> Extension:
    found = fake.driver().native
    assert found is not None
    return found


def direct(extension: Extension, name: str) -> Product:
    found = product(extension, name, "cpu")
    assert found is not None
    return found


CASES: dict[str, tuple[tuple[int, ...], ...]] = {
    "mm": ((8, 16), (16, 4)),
    "addmm": ((4,), (8, 16), (16, 4)),
    "bmm": ((3, 8, 16), (3, 16, 4)),
    "baddbmm": ((3, 8, 4), (3, 8, 16), (3, 16, 4)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int64])
def test_products_are_torchs(extension: Extension, name: str, dtype: torch.dtype) -> None:
    args = [torch.randn(sizes).mul(8).to(dtype) for sizes in CASES[name]]
    plain: Product = getattr(torch, name)
    want, out = plain(*args), torch.empty(0, dtype=dtype)
    out = torch.empty_like(want)
    assert direct(extension, name)(*args, out=out) is out
    assert torch.equal(out, want)
    assert torch.equal(direct(extension, name)(*args), want)


def test_what_is_not_taken_is_called_as_ever(extension: Extension) -> None:
    mm, addmm = direct(extension, "mm"), direct(extension, "addmm")
    a, b, c = torch.randn(8, 16), torch.randn(16, 4), torch.randn(8, 4)
    out = torch.empty(8, 4)
    torch.testing.assert_close(addmm(c, a, b, beta=2, out=out), c * 2 + a @ b)
    lazily, into = torch.randn(16, 4, dtype=torch.complex64).conj(), torch.empty(8, 4, dtype=torch.complex64)
    torch.testing.assert_close(mm(a + 0j, lazily, out=into), (a + 0j) @ lazily.resolve_conj())
    meta = mm(a.to("meta"), b.to("meta"), out=out.to("meta"))
    assert meta.shape == (8, 4)
    for wrong, match in (((a, a), "cannot be multiplied"), ((a, b.double()), "dtype")):
        with pytest.raises(RuntimeError, match=match):
            mm(*wrong, out=out)
    for given in ((), (a,), (a, 3)):
        with pytest.raises(TypeError, match=r"mm\(\)"):
            mm(*given, out=out)


def test_who_watches_operators_sees_products(extension: Extension) -> None:
    mm = direct(extension, "mm")
    a, b, out = torch.randn(8, 16), torch.randn(16, 4), torch.empty(8, 4)
    with FlopCounterMode(display=False) as flops:
        mm(a, b, out=out)
    assert flops.get_total_flops() == 2 * 8 * 16 * 4
    with torch.profiler.profile() as seen:
        mm(a, b, out=out)
    assert "aten::mm" in {event.name for event in seen.events()}


def test_a_product_that_torch_does_not_have(extension: Extension, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_runtime.cuda.calls.library_path", lambda name: f"lib{name}-of-nobody.so")
    assert product(extension, "mm", "cpu") is None


def test_addresses(extension: Extension) -> None:
    class Own(Tensor):
        pass

    given: list[Any] = [torch.randn(4), 7, torch.nn.Parameter(torch.randn(4)), torch.randn(0), Own(4)]
    positions = (0, 2, 3, 4)
    fits = address_check(extension, positions, [given[i].data_ptr() for i in positions])
    assert fits(given)
    assert fits([given[0].view(2, 2), None, *given[2:]])
    weight = given[2].data
    given[2].data = torch.randn(4)
    assert not fits(given)
    given[2].data = weight
    assert fits(given)
    assert address_check(extension, (), ())([])
    with pytest.raises(IndexError):
        fits(given[:2])
    with pytest.raises(TypeError):
        fits([*given[:2], 3, *given[3:]])
    with pytest.raises(TypeError, match="one list"):
        fits(given[0])
