"""Checks of the storages under tensors by the launcher's native code, on a CPU."""

from __future__ import annotations

import pytest
import torch
from packages.triton_runtime.tests.tr_fake_cuda import VECTOR, FakeCuda, load
from torch import Tensor

from tests.common.storage_cases import HELD, SHORT
from triton_runtime.cuda.extension import load_extension
from triton_runtime.cuda.tensors import set_up_tensors


@pytest.mark.parametrize("name", sorted({**HELD, **SHORT}))
def test_storages_are_read(fake: FakeCuda, name: str) -> None:
    extension = load_extension(fake.settings)
    assert set_up_tensors(extension)
    check = extension.storage_check()
    assert check is not None
    x: Tensor = (HELD.get(name) or SHORT[name])()
    assert check(x) is check(torch.ones(2), x) is (name in HELD)


def test_kernels_bring_the_check(fake: FakeCuda) -> None:
    kernel = load(fake.driver(), *VECTOR)
    check = getattr(kernel, "holds")  # noqa: B009  # of the extension, which has no types
    assert check(torch.ones(2))
    assert not check(SHORT["cut"]())


def test_without_functions_of_torch_there_is_none(fake: FakeCuda) -> None:
    extension = load_extension(fake.settings)
    one = torch.empty(4)
    extension.set_torch(Tensor, torch.nn.Parameter, Tensor.data_ptr, one, one._cdata, None)
    assert extension.storage_check() is None
    assert set_up_tensors(extension)
