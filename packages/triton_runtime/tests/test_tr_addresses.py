"""Compares addresses in native code."""

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
    launcher = fake.driver().native
    assert launcher is not None
    return launcher


def test_addresses(extension: Extension) -> None:
    class Own(Tensor):
        pass

    tensors: list[Any] = [torch.randn(4), 7, torch.nn.Parameter(torch.randn(4)), torch.randn(0), Own(4)]
    positions = (0, 2, 3, 4)
    fits = address_check(extension, positions, [tensors[i].data_ptr() for i in positions])
    assert fits(tensors)
    assert fits([tensors[0].view(2, 2), None, *tensors[2:]])
    weight = tensors[2].data
    tensors[2].data = torch.randn(4)
    assert not fits(tensors)
    tensors[2].data = weight
    assert fits(tensors)
    assert address_check(extension, (), ())([])
    with pytest.raises(IndexError):
        fits(tensors[:2])
    with pytest.raises(TypeError):
        fits([*tensors[:2], 3, *tensors[3:]])
    with pytest.raises(TypeError, match="one list"):
        fits(tensors[0])
