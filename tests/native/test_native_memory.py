"""Memory of calls of native libraries: steady calls allocate nothing, and any allocation may fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import nn

import cpp_wrapper
import wrapper_ir_native
from inductor_frontend import capture
from tests.native.interface_case import FAST, output
from wrapper_ir_passes.pipeline import run_on_artifact

PLANNED = "pack-constants,use-out-variants{runtime=native},plan-memory"
"""Passes after which a call allocates nothing."""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("memory") / "program"
    include = f"-I{wrapper_ir_native.include_path()}"
    source = Path(__file__).parent / "memory.cpp"
    flags = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-fno-builtin", "-rdynamic")
    output("g++", *flags, include, source, "-o", program, "-ldl")
    return program


@pytest.mark.slow
@pytest.mark.parametrize("passes", ["", PLANNED])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_allocations_of_calls(
    driver: Path, passes: str, threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(130, 129), nn.ReLU(), nn.Linear(129, 131), nn.LayerNorm(131)).eval()
    with torch.no_grad():
        artifact = capture(model, (torch.randn(96, 130),))
    if passes:
        artifact = run_on_artifact(artifact, passes)
    path = cpp_wrapper.build(artifact, tmp_path / "m.so", FAST)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    assert os.environ["OMP_NUM_THREADS"] == threads
    allocated, *rest = output(driver, path, 96).splitlines()
    assert rest == ["failures 1", "kept 0", "[WIR927]"]
    if passes:
        assert allocated == "allocations 0"
