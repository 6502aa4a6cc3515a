"""Memory of process groups on a machine without GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import wrapper_ir_torch.registration
from tests.collectives.group_memory import Allocator, Backend, Pool, empty_in_pool
from wrapper_ir_torch import REGISTERED_MEMORY


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> Allocator:
    made = Allocator()
    monkeypatch.setattr(torch._C._distributed_c10d._SymmetricMemory, "empty_strided_p2p", staticmethod(made))
    return made


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    made = Backend()
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    for name, fake in {
        "group_backend": lambda group, device: made,
        "new_pool": lambda backend, device: Pool(),
        "empty_in_pool": empty_in_pool,
        "pool_segments": lambda pool: pool.segments,
    }.items():
        monkeypatch.setattr(wrapper_ir_torch.registration, name, fake)
    yield made
    REGISTERED_MEMORY.release("0")
