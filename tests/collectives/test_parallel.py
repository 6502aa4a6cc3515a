"""Several processes with gloo: collectives that are finished at once, programs that differ, and training of
split models, whose curves are those of stock `torch.compile`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collectives.cpp_libraries import CPP_CASES
from tests.collectives.parallel_worker import CASES
from tests.collectives.processes import run_workers

WORKER = Path(__file__).parent / "parallel_worker.py"
TRAINING = ("tensor_parallel_gpt", "fully_sharded_gpt")
FILES = ("artifacts_of_ranks", "artifacts_that_are_compared", "shared_cache")


def _run(folder: Path, world: int, *names: str) -> None:
    """Runs the cases of these names on so many processes."""
    run_workers(folder, WORKER, world, names, str(world), *names)


@pytest.mark.slow
@pytest.mark.parametrize("world", [pytest.param(2, marks=pytest.mark.conformance), 4])
def test_without_compiling(tmp_path: Path, world: int) -> None:
    _run(tmp_path, world, *(name for name in CASES if name not in (*TRAINING, *FILES, *CPP_CASES)))


@pytest.mark.conformance
@pytest.mark.parametrize("world", [8, 32])
def test_disagreement_of_many_processes(tmp_path: Path, world: int) -> None:
    _run(tmp_path, world, "disagreement")


@pytest.mark.conformance
def test_files_and_caches_of_two_processes(tmp_path: Path) -> None:
    """`test_group_ranks.py` is its short sibling."""
    _run(tmp_path, 2, *FILES)


@pytest.mark.slow
def test_libraries_of_cpp(tmp_path: Path) -> None:
    """With memory of the group: programs that agree, and that differ.

    `test_group_memory_cpp.py` has one process.
    """
    _run(tmp_path, 2, *CPP_CASES)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "tensor_parallel_gpt" else pytest.mark.conformance) for n in TRAINING],
)
def test_training_on_two_processes(tmp_path: Path, name: str) -> None:
    _run(tmp_path, 2, name)


@pytest.mark.conformance
@pytest.mark.parametrize("name", TRAINING)
def test_training_on_four_processes(tmp_path: Path, name: str) -> None:
    _run(tmp_path, 4, name)
