"""Matmuls of float32 that the runtime passes to BLAS itself: the same bits as torch's, the same settings, the
same refusals.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cpp_wrapper
from cpp_wrapper.library.python import LoadedProgram
from tests.common.torch_versions import since
from tests.cpp.cpp_case import FAST, artifact_of_text, stock_run
from tests.cpp.matmuls import TEXT, by_torch, by_us, differing, square


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cpp_wrapper.build(artifact_of_text(TEXT), tmp_path_factory.mktemp("matmuls") / "m.so", FAST)


@pytest.fixture(scope="module")
def matmuls(library: Path) -> LoadedProgram:
    return cpp_wrapper.load(library)


def test_bits_are_those_of_torch(matmuls: LoadedProgram) -> None:
    """Sizes of 0 and 1 and every layout: torch decides BLAS's transpositions by strides."""
    assert differing(matmuls, 400) == []


def _reads_itself(program: LoadedProgram, given: list[Tensor]) -> bool:
    """Returns whether the library read the address of `x`, a lazy clone, which materialises it.

    Torch's matmul does not.
    """
    lazy: Tensor = torch._lazy_clone(given[0])
    program(lazy, *given[1:])
    return not torch._C._is_cow_tensor(lazy)  # type: ignore[attr-defined]  # torch does not list it


def test_small_matmuls_are_the_runtimes_and_large_ones_torchs(matmuls: LoadedProgram) -> None:
    assert _reads_itself(matmuls, square(64))
    assert not _reads_itself(matmuls, square(192))


@pytest.fixture
def reduced() -> Iterator[None]:
    """Matmuls of float32 may compute in bfloat16, if the processor supports it."""
    settings: Any = torch.backends.mkldnn  # torch sets its parts on import
    before = settings.matmul.fp32_precision
    settings.matmul.fp32_precision = "bf16"
    yield
    settings.matmul.fp32_precision = before


@pytest.mark.usefixtures("reduced")
def test_torchs_setting_of_precision_holds(matmuls: LoadedProgram) -> None:
    given = square(64)
    assert all(map(torch.equal, by_us(matmuls, given), by_torch(given)))
    assert not _reads_itself(matmuls, given)
    assert _reads_itself(matmuls, square(16))  # which torch computes in full precision with any setting


def test_a_result_over_its_own_bias_is_left_to_torch(library: Path) -> None:
    """torch's runner does not check whether arguments overlap."""
    x, y, r, b, o, _, q = square(8)
    memory = torch.randn(9, 8)
    with pytest.raises(RuntimeError, match="single memory location" if since("2.13") else "API call failed"):
        stock_run(library, [x, y, r, memory[:8], o, memory[1:], q])
    want = torch.addmm(b.clone(), x, y, beta=0.5, alpha=-2.0)
    stock_run(library, [x, y, r, b, o, b, q])
    assert torch.equal(b, want)
