"""Memory registered with a group: what the group's backend is asked for, on a machine without GPUs. `test_registered_gpu.py` uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import cpp_wrapper
import fx_converter
import py_wrapper
import wrapper_ir
import wrapper_ir_torch.registration
from cpp_wrapper.errors import EmitError
from fx_converter import FxOptions
from py_wrapper import TORCH_MACHINE
from tests.collectives.collective_cases import lonely_group
from tests.common.compare import assert_same
from tests.common.forms import FORMS
from wrapper_ir.artifact import Artifact, bare_artifact
from wrapper_ir.errors import ExecutionError
from wrapper_ir.interp import Interpreter
from wrapper_ir_torch import REGISTERED_MEMORY, RegistrationCounts, find_group

X = torch.randn(3, 4)
DEVICE = torch.device("cuda:0")
SEGMENT = 2 << 20
PROGRAM = """wir 0.3
target cpu

extern "_c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)" tags(collective)
extern "_c10d_functional::all_gather_into_tensor_out(Tensor input, int group_size, str group_name, *, Tensor(a!) out) -> Tensor(a!)" tags(collective)

func @main(%x: f32[3, 4]) {
  %s = alloc_storage 48 @cuda:0 registered("0", 7)
  %b = view %s : f32[3, 4] @cuda:0
  copy %b, %x
  %h = collective _c10d_functional::all_reduce_(%b, "sum", "0") group("0") : f32[3, 4] @cuda:0
  %r = wait %h : f32[3, 4] @cuda:0
  %t = alloc_storage 96 @cuda:0 registered("0", 8)
  %o = view %t + 48 : f32[3, 4] @cuda:0
  %k = collective _c10d_functional::all_gather_into_tensor_out(%r, 1, "0", out=%o) group("0") : f32[3, 4] @cuda:0
  %g = wait %k : f32[3, 4] @cuda:0
  free %s
  %y = alloc f32[3, 4]
  copy %y, %g
  free %t
  return %y
}
"""


class Pool:
    """In the place of torch's: memory of the host, in one segment."""

    def __init__(self) -> None:
        self.segments: list[int] = []


class Backend:
    """In the place of NCCL's: which pools were registered, and taken back."""

    def __init__(self) -> None:
        self.connected: list[torch.device] = []
        self.registered: list[Pool] = []

    def _is_initialized(self) -> bool:
        return bool(self.connected)

    def eager_connect_single_device(self, device: torch.device) -> None:
        self.connected.append(device)

    def register_mem_pool(self, pool: Pool) -> None:
        self.registered.append(pool)

    def deregister_mem_pool(self, pool: Pool) -> None:
        self.registered = [known for known in self.registered if known is not pool]


def _empty(pool: Pool, sizes: Any, strides: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    pool.segments[:] = [SEGMENT]
    return torch.full(tuple(sizes), 77, dtype=dtype).as_strided(tuple(sizes), tuple(strides))


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    made = Backend()
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    for name, fake in {
        "group_backend": lambda group, device: made,
        "new_pool": lambda backend, device: Pool(),
        "empty_in_pool": _empty,
        "pool_segments": lambda pool: pool.segments,
    }.items():
        monkeypatch.setattr(wrapper_ir_torch.registration, name, fake)
    yield made
    REGISTERED_MEMORY.release("0")


def artifact() -> Artifact:
    return bare_artifact(wrapper_ir.parse_program(PROGRAM))


def ways() -> dict[str, Callable[[Artifact], Callable[..., Any]]]:
    def graph(form: Any) -> Callable[[Artifact], Callable[..., Any]]:
        return lambda a: fx_converter.convert(a, FxOptions(kernel_calls=form))

    found: dict[str, Callable[[Artifact], Callable[..., Any]]] = {form: graph(form) for form in FORMS}
    return {"interpreter": lambda a: Interpreter(a, TORCH_MACHINE), "python": py_wrapper.compile, **found}


@pytest.mark.parametrize("way", ["interpreter", "python", *FORMS])
def test_memory_is_registered_once(way: str, backend: Backend, tmp_path: Path) -> None:
    """All calls have the same; the communicator is made first where no collective has made it."""
    run = ways()[way](artifact())
    with lonely_group(tmp_path):
        for _ in range(3):
            assert_same(run(X), (X,))
        assert REGISTERED_MEMORY.counts("0", DEVICE) == RegistrationCounts(2, 48 + 96, 1, SEGMENT)
        assert backend.connected == [DEVICE]
        assert len({*map(id, backend.registered)}) == 1


def test_programs_with_the_same_ids_have_the_same_memory(backend: Backend, tmp_path: Path) -> None:
    with lonely_group(tmp_path):
        for make in ways().values():
            assert_same(make(artifact())(X), (X,))
        assert REGISTERED_MEMORY.counts("0", DEVICE).tensors == 2


def test_a_group_that_ends_leaves_nothing(backend: Backend, tmp_path: Path) -> None:
    """Another one of its name has memory of its own, also while something keeps the object of the first."""
    run, kept = py_wrapper.compile(artifact()), []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        with lonely_group(tmp_path / str(number)):
            assert_same(run(X), (X,))
            assert REGISTERED_MEMORY.counts("0", DEVICE).tensors == 2
            kept.append(find_group("0"))
        assert REGISTERED_MEMORY.counts("0", DEVICE) == RegistrationCounts(0, 0, 0, 0)
    assert len({*map(id, backend.registered)}) == 2


def test_memory_of_a_living_group_is_given_back(backend: Backend, tmp_path: Path) -> None:
    run = py_wrapper.compile(artifact())
    with lonely_group(tmp_path):
        assert_same(run(X), (X,))
        REGISTERED_MEMORY.release("0")
        assert backend.registered == []
        assert_same(run(X), (X,))
        assert len(backend.registered) == 2


def test_multicast_stays_off(backend: Backend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NCCL_NVLS_ENABLE")
    with lonely_group(tmp_path), pytest.raises(ExecutionError, match=r"WIR938.*multicast") as caught:
        py_wrapper.compile(artifact())(X)
    assert "NCCL_NVLS_ENABLE=0" in str(caught.value)
    assert backend.registered == []


def test_a_group_that_registers_nothing(tmp_path: Path) -> None:
    with lonely_group(tmp_path), pytest.raises(ExecutionError, match=r"WIR938.*no backend on cuda:0"):
        py_wrapper.compile(artifact())(X)


def test_a_graph_that_is_traced_again_keeps_the_call(backend: Backend, tmp_path: Path) -> None:
    module = fx_converter.convert(artifact(), FxOptions(kernel_calls="hop", convention="flat"))
    fx_converter.save(module, tmp_path / "graph.wir")
    with lonely_group(tmp_path):
        again = make_fx(module, tracing_mode="symbolic")(X)
        assert [n.name for n in again.graph.nodes if "empty_registered" in str(n.target)]
        assert backend.registered == []
        assert_same(fx_converter.load(tmp_path / "graph.wir")(X), (X,))
        assert REGISTERED_MEMORY.counts("0", DEVICE).tensors == 2


def test_libraries_of_cpp_have_none() -> None:
    with pytest.raises(EmitError, match=r"CPP503.*registered memory"):
        cpp_wrapper.emit(
            bare_artifact(
                wrapper_ir.parse_program(PROGRAM.replace("target cpu", 'target cuda:0 arch "sm_90"'))
            )
        )
