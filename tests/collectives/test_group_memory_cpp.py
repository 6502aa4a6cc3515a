"""C++ libraries with symmetric and registered memory, on a machine without GPUs.

They allocate it through Python, as emitted Python does, and run nowhere else. `test_parallel.py` has several
processes, `test_group_memory_cpp_gpu.py` GPUs.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cpp_wrapper
import py_wrapper
from cpp_wrapper import CppError, CppOptions, EmitError
from tests.collectives.collective_cases import WORLD, lonely_group
from tests.collectives.cpp_libraries import library, memory_of_host
from tests.collectives.fused_cases import fused, operators_of_cpu
from tests.collectives.fused_cases import program as fused_program
from tests.collectives.group_memory import (
    BLOCK,
    LARGE,
    ROW,
    SEGMENT,
    WEIGHT,
    Allocator,
    Backend,
    registered_artifact,
    symmetric_artifact,
)
from tests.collectives.lowered_cases import OPTIONS, lowered_pair, on_host, program
from tests.common.compare import assert_same
from tests.common.torch_versions import since
from wrapper_ir import parse_program
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import ExecutionError, NotSupportedError
from wrapper_ir_torch import REGISTERED_MEMORY, SYMMETRIC_MEMORY, RegistrationCounts, find_group

# Any in this file: programs of any signature
Program = Callable[..., Any]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Artifact], Program]]:
    """Builds and loads a library."""
    with memory_of_host():
        yield library(tmp_path_factory.mktemp("libraries"))


def test_the_allocator_is_asked_once_for_each_id(
    make: Callable[[Artifact], Program], allocator: Allocator, tmp_path: Path
) -> None:
    """Requests equal those of emitted Python; ids have 64 bits. Released memory is requested again."""
    run = make(symmetric_artifact(LARGE))
    host = "cpu:0" if since("2.13") else "cpu"
    with lonely_group(tmp_path):
        for _ in range(2):
            assert_same(run(ROW, WEIGHT), (WEIGHT, torch.zeros(5)))
        SYMMETRIC_MEMORY.release("0")
        assert_same(run(ROW, WEIGHT), (WEIGHT, torch.zeros(5)))
    whole = ((3, 4), (4, 1), torch.float32, "0", LARGE)
    pool = ((10,), (1,), torch.float32, "0", 3)
    assert [(*asked[:3], *asked[4:]) for asked in allocator.asked] == [whole, pool] * 2
    assert {asked[3] for asked in allocator.asked} <= {"cpu", host}


@pytest.mark.parametrize("end", ["released", "deleted", "destroyed", "renamed"])
def test_a_library_holds_nothing_that_has_ended(
    end: str, make: Callable[[Artifact], Program], allocator: Allocator, tmp_path: Path
) -> None:
    """Released memory, and memory of an ended group, also if another group has its name, is not kept; nor is
    any by a deleted library.
    """
    run = make(symmetric_artifact())
    with lonely_group(tmp_path):
        run(ROW, WEIGHT)
        group = find_group("0")
        assert allocator.living == 2
        if end == "deleted":
            del run
            SYMMETRIC_MEMORY._entries.of("0").clear()
        elif end == "released":
            SYMMETRIC_MEMORY.release("0")
            assert allocator.living == 0
            run(ROW, WEIGHT)
            SYMMETRIC_MEMORY.release("0")
    if end == "renamed":  # the destroyed group is still referenced
        (tmp_path / "other").mkdir()
        with lonely_group(tmp_path / "other"):
            assert_same(run(torch.ones(5), WEIGHT), (WEIGHT, torch.zeros(5)))
            assert (allocator.living, len(allocator.asked)) == (2, 4)
    del group
    assert allocator.living == 0


def test_the_group_must_be_there(make: Callable[[Artifact], Program], allocator: Allocator) -> None:
    with pytest.raises(NotSupportedError, match="WIR915"):
        make(symmetric_artifact())(ROW, WEIGHT)
    assert allocator.asked == []


def test_memory_is_registered_once(
    make: Callable[[Artifact], Program], backend: Backend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As long as the group lives, or until it is released."""
    run = make(registered_artifact())
    with lonely_group(tmp_path):
        for _ in range(3):
            assert_same(run(BLOCK), (BLOCK,))
        assert len({*map(id, backend.registered)}) == 1
        assert len(backend.connected) == 1
        want = RegistrationCounts(2, 48 + 96, 1, SEGMENT)
        assert REGISTERED_MEMORY.counts("0", backend.connected[0]) == want
        REGISTERED_MEMORY.release("0")
        assert backend.registered == []
        assert_same(run(BLOCK), (BLOCK,))
        REGISTERED_MEMORY.release("0")
        monkeypatch.delenv("NCCL_NVLS_ENABLE")
        code = "WIR938" if since("2.13") else "WIR927"  # the text of an error is torch's from 2.13 on
        with pytest.raises(ExecutionError) as caught:
            run(BLOCK)
        assert caught.value.code == code


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("rank", range(WORLD))
def test_one_of_two_processes(
    rank: int, options: str, make: Callable[[Artifact], Program], tmp_path: Path
) -> None:
    """Programs with kernels over symmetric memory equal emitted Python."""
    torch.manual_seed(0)
    x, w = torch.randn(16, 4), torch.randn(4, 4)
    _, other = lowered_pair(program(WORLD), options)
    run = make(other)
    with lonely_group(tmp_path), on_host(lambda tensor, _: 2 * tensor, rank, WORLD):
        want = py_wrapper.compile(other)(x, w)
        for _ in range(2):
            assert_same(tuple(run(x, w)), tuple(want))


def test_fused_matmuls(make: Callable[[Artifact], Program], tmp_path: Path) -> None:
    """Operators that torch has written in Python, with results that its dispatcher alone would mix up."""
    torch.manual_seed(0)
    args = torch.randn(4, 2, 8), torch.randn(16, 8), torch.randn(8, 16), torch.randn(16, 8)
    _, other = fused(fused_program(1))
    with lonely_group(tmp_path), operators_of_cpu():
        assert_same(tuple(make(other)(*args)), tuple(py_wrapper.compile(other)(*args)))


# --- processes that have not compared their programs


def _call(path: Path, inputs: list[Tensor], outputs: int) -> str:
    """Returns the error of a call through AOTInductor's own interface."""
    code = ctypes.CDLL(str(path))
    container, text = ctypes.c_void_p(), ctypes.c_char_p()
    assert code.AOTInductorModelContainerCreateWithDevice(ctypes.byref(container), 1, b"cpu", None) == 0
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    capsules = [torch._C._aoti.unsafe_alloc_void_ptr_from_tensor(x) for x in inputs]
    given = (ctypes.c_void_p * len(inputs))(*(pointer(c, None) for c in capsules))
    made = (ctypes.c_void_p * outputs)()
    counts = ctypes.c_size_t(len(inputs)), ctypes.c_size_t(outputs)
    failed = code.AOTInductorModelContainerRun(container, given, counts[0], made, counts[1], None, None)
    code.AOTInductorGetLastError(ctypes.byref(text))
    said = (text.value or b"").decode() if failed else ""  # the next call empties it
    assert code.AOTInductorModelContainerDelete(container) == 0
    return said


def test_other_loaders_are_refused(allocator: Allocator, tmp_path: Path) -> None:
    """Before anything runs, by an error that names the op and the way out."""
    with memory_of_host():
        path = cpp_wrapper.build(symmetric_artifact(), tmp_path / "m.so", CppOptions(opt_level=0))
    with lonely_group(tmp_path):
        text = _call(path, [ROW.clone(), WEIGHT.clone()], 2)
    assert text.startswith("[CPP540] processes share memory of group '0'")
    assert '%s = alloc_storage 48 @cuda:0 symmetric("0", 7)' in text
    assert "hint: load the library in a process of Python with cpp_wrapper.load" in text
    assert allocator.asked == []


def test_the_package_with_the_memory_must_be_there(
    make: Callable[[Artifact], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "wrapper_ir_torch" else found(name)
    )
    with pytest.raises(CppError, match=r"CPP580.*wrapper-ir-torch") as caught:
        make(symmetric_artifact())
    assert caught.value.hint == "pip install 'cpp-wrapper[torch]'"


def test_libraries_for_other_processes_call_no_operators_of_python() -> None:
    """Those without memory of a group may still be loaded anywhere."""
    text = """wir 0.5
target cpu

extern "symm_mem::fused_matmul_reduce_scatter(Tensor A, Tensor B, str reduce_op, int scatter_dim, str group_name) -> Tensor"

func @main(%x: f32[4, 4]) {
  %y = call symm_mem::fused_matmul_reduce_scatter(%x, %x, "sum", 0, "0") : f32[4, 4]
  return %y
}
"""
    artifact, options = bare_artifact(parse_program(text)), CppOptions()
    with pytest.raises(EmitError, match=r"CPP502.*exists in Python only"):
        cpp_wrapper.emit(artifact, options=options)
    cpp_wrapper.emit(artifact, options=replace(options, python_operators=True))
