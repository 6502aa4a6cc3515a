"""Scopes of profilers and memory pools, in the interpreter, emitted Python and FX graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import fx_converter
import py_wrapper
from fx_converter import FxOptions
from tests.common.input_engines import artifact_of, engines
from wrapper_ir import ir
from wrapper_ir.errors import NotSupportedError, PassError, WirError
from wrapper_ir.plugins.registry import machine
from wrapper_ir_lowering.storages import made_elsewhere
from wrapper_ir_passes import run_pipeline
from wrapper_ir_runtime import MEMORY_POOLS
from wrapper_ir_runtime.interp import Interpreter
from wrapper_ir_runtime.interp.options import InterpOptions

PROFILED = """extern "aten::relu(Tensor self) -> Tensor"

func @main(%x: f32[4]) {
  enter_profile "outer"
  %y = call_subgraph @inner(%x) : f32[4]
  exit_scope
  return %y
}

func @inner(%x: f32[4]) {
  enter_profile "inner" "of four"
  %y = call aten::relu(%x) : f32[4]
  drop %x
  exit_scope
  return %y
}
"""


def names_in(profile: Any) -> list[str]:  # Any: torch leaves it untyped
    return [e.name for e in profile.events() if e.name in ("outer", "inner", "after")]


def test_profilers_see_scopes_in_scopes(tmp_path: Path) -> None:
    for name, run in engines(artifact_of(PROFILED), tmp_path).items():
        with torch.profiler.profile() as profile:
            run([torch.ones(4)])
        found = {e.name: e for e in profile.events() if e.name in ("outer", "inner", "aten::relu")}
        if name.startswith("interpreter"):
            assert set(found) == {"aten::relu"}
            continue
        assert set(found) == {"outer", "inner", "aten::relu"}, name
        assert found["inner"].cpu_parent is found["outer"], name
        assert found["aten::relu"].cpu_parent is found["inner"], name


def test_the_interpreter_tells_of_scopes() -> None:
    told: list[tuple[str, str, bool]] = []

    def hear(op: ir.EnterProfile, begins: bool) -> None:
        told.append((op.name, op.details, begins))

    options = InterpOptions(profile=hear)
    Interpreter(artifact_of(PROFILED), machine("torch"), options).boxed([torch.ones(4)])
    assert told == [
        ("outer", "", True),
        ("inner", "of four", True),
        ("inner", "of four", False),
        ("outer", "", False),
    ]


FAILS = """func @main(%x: f32[4]) {
  enter_profile "outer"
  assert_finite %x
  exit_scope
  return %x
}
"""


def test_a_failure_ends_scopes(tmp_path: Path) -> None:
    for name, run in engines(artifact_of(FAILS), tmp_path).items():
        if "hop" in name or name.startswith("interpreter"):
            continue
        with torch.profiler.profile() as profile:
            with pytest.raises(WirError, match="WIR922"):
                run([torch.full((4,), float("nan"))])
            with torch.profiler.record_function("after"):
                torch.ones(1)
        found = {e.name: e for e in profile.events() if e.name in ("outer", "after")}
        assert set(found) == {"outer", "after"}, name
        assert found["after"].cpu_parent is None, name


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    text = 'func @main(%x: f32[4]) {\n  enter_profile "a\\ud800\\u0000\\"\\n" "\\udfff"\n  exit_scope\n  return %x\n}\n'
    for run in engines(artifact_of(text), tmp_path).values():
        run([torch.ones(4)])


POOLED = """func @main(%x: f32[1024] @cuda:0) {
  enter_memory_pool "big" @cuda:0
  %s = alloc_storage 4096 @cuda:0
  %t = alloc f32[1024] @cuda:0
  exit_scope
  %y = view %s : f32[1024] @cuda:0
  copy %y, %x
  copy %t, %y
  free %s
  return %t
}
"""


def pooled(device: str = "cuda") -> Any:
    return artifact_of(POOLED.replace("cuda", device))


def test_memory_is_of_the_pool_around_its_op() -> None:
    """Storages are created with their first tensor elsewhere."""
    artifact = pooled()
    assert {v.name for v in made_elsewhere(artifact.program.main)} == {"s"}
    source = py_wrapper.emit(artifact)
    block = str(source).partition('with use_memory_pool(torch, "big", "cuda:0"):\n')[2].splitlines()
    inside = [line for line in block if line.startswith("        ")][:2]
    assert all("empty_strided" in line for line in inside), block[:6]
    assert [line.split(" = ")[0].strip() for line in inside] == ["s", "t"]


@pytest.mark.parametrize("form", ["direct", "hop"])
def test_graphs_enter_pools(form: Any) -> None:
    module = fx_converter.convert(pooled(), FxOptions(kernel_calls=form, convention="flat"))
    names = [getattr(n.target, "__name__", "") for n in module.graph.nodes]
    between = names[names.index("enter_memory_pool") + 1 : names.index("exit_scope")]
    assert len([n for n in between if "empty_strided" in n]) == 2, names


def test_pools_move_between_devices_of_a_type() -> None:
    there = run_pipeline(pooled().program, "move-device{from=cuda:0,to=cuda:1}")
    (scope,) = (op for op in there.main.body if isinstance(op, ir.EnterMemoryPool))
    assert scope.device == ir.Device("cuda", 1)
    with pytest.raises(PassError, match=r"WIR807.*memory pool big"):
        run_pipeline(pooled().program, "move-device{from=cuda:0,to=cpu}")


def test_devices_without_pools_are_refused() -> None:
    for emit in (py_wrapper.emit, fx_converter.convert):
        with pytest.raises(NotSupportedError, match="WIR224"):
            emit(pooled("xpu"))


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["python", "fx, direct, flat", "fx, hop, flat", "fx"])
def test_memory_comes_from_the_pool(engine: str, tmp_path: Path) -> None:
    pool = torch.cuda.MemPool()
    MEMORY_POOLS.set("big", "cuda:0", pool)
    run = engines(pooled(), tmp_path)[engine]
    (result,) = run([torch.ones(1024, device="cuda:0")])
    assert torch.equal(result, torch.ones(1024, device="cuda:0"))
    segments: Any = torch.cuda.memory_snapshot(pool.id)  # type: ignore[no-untyped-call]  # torch leaves it so
    addresses = {b["address"] for s in segments for b in s["blocks"]}
    assert result.data_ptr() in addresses
