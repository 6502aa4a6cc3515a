"""Comparisons of addresses by the launcher's native code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from packages.triton_runtime.tests.tr_fake_cuda import FakeCuda
from torch import Tensor

from triton_runtime.cuda.address_check import address_check
from triton_runtime.cuda.extension import Extension


@pytest.fixture
def extension(fake: FakeCuda) -> Extension:
    found = fake.driver().native
    assert found is not None
    return found


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
