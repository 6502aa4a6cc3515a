"""Errors that kernels find on the elements of tensors are raised in every engine, also by kernels of several
threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

import cpp_wrapper
import fx_converter
import py_wrapper
from inductor_frontend import capture
from py_wrapper.machine import TORCH_MACHINE
from wrapper_ir.artifact import Artifact
from wrapper_ir_runtime.interp import Interpreter

WIDTH, TOKENS = 512, 100
MODELS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "rows": lambda w, i: w[i] + 1,
    "sum": lambda w, i: w[i].sum(),
    "variance": lambda w, i: w[i].var((0, 1)),
    "scatter": lambda w, i: w.index_put((i,), w[0] * 2),
}
ENGINES: dict[str, Callable[[Artifact, Path], Callable[[Tensor, Tensor], Tensor]]] = {
    "interpreter": lambda artifact, folder: Interpreter(artifact, TORCH_MACHINE),
    "python": lambda artifact, folder: py_wrapper.compile(artifact),
    "fx": lambda artifact, folder: fx_converter.compile(artifact),
    "cpp": lambda artifact, folder: cpp_wrapper.load(cpp_wrapper.build(artifact, folder / "model.so")),
}


@pytest.fixture(autouse=True, scope="module")
def several_threads() -> Iterator[None]:
    """Kernels are written for the number of threads that a process uses."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_an_index_out_of_range_is_an_error_of_the_call(name: str, tmp_path: Path) -> None:
    """An exception that left a parallel region would end the process."""
    model = MODELS[name]
    weight = torch.randint(
        -8, 8, (TOKENS, WIDTH)
    ).float()  # sums of small whole numbers are exact in any order
    right = torch.randint(0, TOKENS, (64, 16))
    wrong = right.clone()
    wrong[37, 3] = TOKENS
    artifact = capture(model, (weight, right))
    sources = [getattr(kernel, "source", "") for kernel in artifact.program.kernels]
    assert any("#pragma omp parallel" in source and "TORCH_CHECK" in source for source in sources)
    for engine, make in ENGINES.items():
        run = make(artifact, tmp_path)
        for _ in range(2):
            with pytest.raises(IndexError, match=r"CPP406(.|\n)*index out of bounds") as caught:
                run(weight, wrong)
            assert type(caught.value).__name__ == "KernelIndexError", engine
            torch.testing.assert_close(run(weight, right), model(weight, right), msg=engine)
