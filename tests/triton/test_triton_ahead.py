"""Artifacts with their kernels' machine code, compiled on a machine without the target GPU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from packages.triton_runtime.tests.compiling import MemoryStore
from torch import nn

import py_wrapper
import wrapper_ir
from inductor_frontend import capture
from tests.common.zoo import ZOO
from triton_runtime import TritonOptions, TritonRuntime
from triton_runtime.fake import FakeDriver
from wrapper_ir import ir
from wrapper_ir.artifact import Artifact
from wrapper_ir.errors import ArtifactError, PluginError
from wrapper_ir.json.kernel_hash import content_hash, find_binary
from wrapper_ir.plugins.protocols import AheadCompiler
from wrapper_ir_runtime.ahead import compile_ahead
from wrapper_ir_runtime.kernels import load_kernels
from wrapper_ir_runtime.parts import open_parts
from wrapper_ir_tools.cli.main import main

pytest.importorskip("triton", reason="kernels are compiled by triton")

HERE = ThreadPoolExecutor(1)
"""Compiles in this process, which has loaded all dependencies."""
RUNTIME: AheadCompiler = TritonRuntime(options=TritonOptions(executor=HERE))


def layer() -> Artifact:
    """Two kernels for sm_90."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 8), nn.LayerNorm(8)).eval()
    return capture(model, (torch.randn(4, 16),), target="cuda:sm_90")


@pytest.fixture(scope="module")
def ahead() -> Artifact:
    return compile_ahead(layer(), find=lambda kind: RUNTIME)


def device(store: MemoryStore | None = None) -> TritonRuntime:
    """A runtime as on a device, with nothing in its store."""
    return TritonRuntime(
        options=TritonOptions(
            driver=FakeDriver(needs_binary=True), store=store or MemoryStore(), executor=HERE
        )
    )


def loaded(artifact: Artifact, runtime: TritonRuntime) -> TritonRuntime:
    """The runtime, after it has loaded all kernels."""
    program = artifact.program
    found = load_kernels(program.kernels, program.target, lambda kind: runtime, artifact.binaries)
    assert set(found) == {k.name for k in program.kernels}
    return runtime


def roundtrip(artifact: Artifact, folder: Path) -> Artifact:
    wrapper_ir.save(artifact, folder / "m.wir")
    return wrapper_ir.load(folder / "m.wir")


def check(artifact: Artifact, tmp_path: Path) -> None:
    """Every kernel is in the file, and loading it compiles none."""
    again = roundtrip(artifact, tmp_path)
    assert again.binaries == artifact.binaries
    assert {b.kernel for b in again.binaries} == {content_hash(k) for k in again.program.kernels}
    for binary in again.binaries:
        assert binary.image[:4] == b"\x7fELF"
        assert (binary.kind, binary.target) == (ir.ImageKind.CUBIN, "cuda:sm_90")
    stats = loaded(again, device()).stats
    assert (stats.compiled, stats.passed_over) == (0, 0)
    assert stats.carried == stats.reused > 0


def test_an_artifact_holds_its_kernels(ahead: Artifact, tmp_path: Path) -> None:
    check(ahead, tmp_path)


@pytest.mark.conformance
@pytest.mark.parametrize("name", ["gpt2", "bert", "vit", "lstm"])
def test_models_hold_their_kernels(name: str, tmp_path: Path) -> None:
    case = ZOO[name]()
    check(compile_ahead(capture(case.model, case.args, case.kwargs, target="cuda:sm_90")), tmp_path)


def test_what_would_be_made_otherwise_is_passed_over(
    ahead: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another compiler compiles its own code, without using the stored one.

    Another target has other kernels.
    """
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    store = MemoryStore()
    stats = loaded(ahead, device(store)).stats
    assert (stats.carried, stats.passed_over) == (0, len(ahead.program.kernels))
    assert stats.compiled == len(ahead.program.kernels)
    assert not any(store.get(binary.key) for binary in ahead.binaries)
    monkeypatch.delenv("TRITON_DEFAULT_FP_FUSION")
    assert loaded(ahead, device()).stats.compiled == 0

    target = replace(ahead.program.target, arch="sm_80")
    elsewhere = replace(ahead.program, target=target, kernels=ahead.program.kernels[:1])
    stats = loaded(replace(ahead, program=elsewhere), device()).stats
    assert (stats.carried, stats.passed_over, stats.compiled) == (0, 1, 1)


def test_what_is_carried_is_no_ones_elses(ahead: Artifact) -> None:
    """Code that an artifact claims for a kernel is not cached for other programs."""
    store = MemoryStore()
    loaded(ahead, device(store))
    assert not any(store.get(binary.key) for binary in ahead.binaries)


def test_damage_is_noticed(ahead: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "m.wir"
    wrapper_ir.save(ahead, path)
    data = bytearray(path.read_bytes())
    data[data.index(b"\x7fELF") + 64] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match="WIR703"):
        wrapper_ir.load(path)
    for key in ("../evil", ahead.binaries[1].key):
        odd = (replace(ahead.binaries[0], key=key), *ahead.binaries[1:])
        with pytest.raises(ArtifactError, match="WIR712"):
            wrapper_ir.save(replace(ahead, binaries=odd), path)


def test_candidates(tmp_path: Path) -> None:
    """With all configs, whichever is chosen later is there."""
    artifact = capture(lambda x: x.softmax(-1), (torch.randn(64, 5000),), target="cuda:sm_90")
    (kernel,) = artifact.program.kernels
    assert isinstance(kernel, ir.TritonKernel)
    ahead = compile_ahead(artifact, candidates=True, find=lambda kind: RUNTIME)
    assert len(ahead.binaries) == len(kernel.configs) > 1
    last = replace(kernel, configs=kernel.configs[-1:])
    stats = loaded(replace(ahead, program=replace(ahead.program, kernels=(last,))), device()).stats
    assert (stats.carried, stats.compiled) == (1, 0)


def test_the_command(tmp_path: Path) -> None:
    source, target = tmp_path / "a.wir", tmp_path / "b.wir"
    wrapper_ir.save(layer(), source)
    done = CliRunner().invoke(main, ["compile", str(source), "-o", str(target)])
    assert done.exit_code == 0, done.output
    assert "kernel(s) for sm_90" in done.output
    assert len(wrapper_ir.load(target).binaries) == len(wrapper_ir.load(source).program.kernels)
    archs = ["--arch", "sm_80", "--arch", "sm_90"]
    done = CliRunner().invoke(main, ["compile", str(source), "-o", str(target), *archs])
    assert done.exit_code == 0, done.output
    assert "kernel(s) for sm_80, sm_90" in done.output
    both = wrapper_ir.load(target)
    for kernel in both.program.kernels:
        assert isinstance(kernel, ir.TritonKernel)
        for name in ("cuda:sm_80", "cuda:sm_90"):
            assert find_binary(both.binaries, kernel, kernel.configs[0], name) is not None
    stats = loaded(both, device()).stats
    assert (stats.compiled, stats.passed_over) == (0, 0)


def test_kernels_that_are_compiled_where_they_are_loaded(tmp_path: Path) -> None:
    cpu = capture(lambda x: x * 2, (torch.randn(4, 16),))
    with pytest.raises(PluginError, match="cpp") as caught:
        compile_ahead(cpu)
    assert caught.value.code == "WIR904"
    wrapper_ir.save(
        replace(layer(), program=replace(layer().program, target=cpu.program.target)), tmp_path / "m.wir"
    )
    done = CliRunner().invoke(main, ["compile", str(tmp_path / "m.wir"), "-o", str(tmp_path / "n.wir")])
    assert done.exit_code == 2
    assert "WIR905" in done.output
    assert "TR202" in done.output


def test_emitted_folders_hold_them_as_well(ahead: Artifact, tmp_path: Path) -> None:
    main_file = py_wrapper.EMITTER.write(ahead, tmp_path)[0]
    parts = open_parts(str(main_file), None)
    assert parts.binaries == ahead.binaries
    assert [content_hash(k) for k in parts.kernels] == [content_hash(k) for k in ahead.program.kernels]
    runtime = device()
    replace(parts, find_runtime=lambda kind: runtime).load_kernels()
    assert (runtime.stats.compiled, runtime.stats.carried) == (0, len(ahead.program.kernels))
