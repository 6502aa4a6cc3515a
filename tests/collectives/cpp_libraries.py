"""Programs with memory of process groups as C++ libraries, on a machine without GPUs, too."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from unittest import mock

import torch

import cpp_wrapper
import py_wrapper
from cpp_wrapper import CppOptions
from cpp_wrapper.library.python import LoadedProgram
from cpp_wrapper.sources.scope import FunctionScope
from tests.collectives import disagreement_cases, fused_cases, lowered_cases
from tests.collectives.rank_cases import refused
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import code_of

# Any in this file: programs of any signature
_FAST = CppOptions(opt_level=0)
_numbers = itertools.count()


@contextmanager
def memory_of_host() -> Iterator[None]:
    """Libraries that are built for the CPU take memory of a GPU's process groups from the CPU."""
    with mock.patch.object(FunctionScope, "on_gpu", return_value=False):
        yield


def library(folder: Path) -> Callable[[Artifact], LoadedProgram]:
    """Builds a library of an artifact, in a separate file, and loads it."""

    def make(artifact: Artifact) -> LoadedProgram:
        return cpp_wrapper.load(cpp_wrapper.build(artifact, folder / f"library{next(_numbers)}.so", _FAST))

    return make


def cpp_lowered_kernels(rank: int, world: int, folder: Path) -> None:
    """Libraries equal emitted Python for programs with kernels and for the library's collectives."""
    torch.manual_seed(rank)
    x, w = torch.randn(16, 4), torch.randn(4, 4)
    (folder / str(rank)).mkdir()
    make = library(folder / str(rank))
    for options in lowered_cases.OPTIONS:
        usual, other = lowered_cases.lowered_pair(lowered_cases.program(world), options)
        with lowered_cases.on_host(lowered_cases.over_group, rank, world), memory_of_host():
            run = make(other)
            want = py_wrapper.compile(usual)(x, w)
            for _ in range(2):
                torch.testing.assert_close(tuple(run(x, w)), tuple(want))
            torch.testing.assert_close(tuple(run(x, w)), tuple(py_wrapper.compile(other)(x, w)))


def cpp_fused_matmuls(rank: int, world: int, folder: Path) -> None:
    """Torch's fused operators are called by a library."""
    torch.manual_seed(rank)
    args = [torch.randn(*sizes) for sizes in ((4, 2, 8), (16, 8), (8, 16), (16, 8))]
    (folder / f"fused{rank}").mkdir()
    usual, other = fused_cases.fused(fused_cases.program(world))
    want = py_wrapper.compile(usual)(*args)
    with fused_cases.operators_of_cpu():
        run = library(folder / f"fused{rank}")(other)
        for _ in range(2):
            torch.testing.assert_close(tuple(run(*args)), tuple(want))


def cpp_disagreement(rank: int, world: int, folder: Path) -> None:
    """Libraries of programs with different memory plans: each process raises before anything runs."""
    (folder / f"plan{rank}").mkdir()
    make = library(folder / f"plan{rank}")
    with memory_of_host():
        usual, other = (make(disagreement_cases.host_program(id)) for id in (5, 6))
        try:
            usual()
        except (
            Exception
        ) as error:  # they agree, and get as far as asking for memory that the CPU does not have
            assert code_of(error) != "WIR933", error
        turn = make(disagreement_cases.host_program(7))
        with refused("WIR933", "rank 0 has `plan @main: ", f"rank {world - 1} has `plan @main: "):
            (other if rank == world - 1 else turn)()


CPP_CASES: Mapping[str, Callable[[int, int, Path], None]] = MappingProxyType(
    {f.__name__: f for f in (cpp_lowered_kernels, cpp_fused_matmuls, cpp_disagreement)}
)
