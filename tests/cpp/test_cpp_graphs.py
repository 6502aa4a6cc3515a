"""Replayable functions of programs for CUDA devices, as CUDA graphs: capture, replay and results, on fakes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cpp_wrapper
from cpp_wrapper.library.python import LoadedProgram
from tests.cpp.cpp_case import FAST
from tests.cpp.cpp_gpu import ADD_KERNEL, GRAPH_PASSES, MATMULS, SUMS, FakeGpu, artifact_for_gpu
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes.analysis.stats import program_stats
from wrapper_ir_passes.pipeline import run_on_artifact

pytest.importorskip("triton", reason="kernels are bound by triton_runtime")

GOLDEN = Path(__file__).parent / "golden"
TWO = (
    "symbol u0 : int unbacked [0, 8]\n"
    + ADD_KERNEL
    + """
func @main(%x: f32[64], %i: i64[]) {
  %a = alloc f32[64]
  launch @add(%x, %x, %a, 1.0, 64)
  %b = alloc f32[64]
  launch @add(%a, %x, %b, 1.0, 64)
  define u0 = item(%i)
  %c = alloc f32[64]
  launch @add(%b, %x, %c, 1.0, 64)
  %d = alloc f32[64]
  launch @add(%c, %b, %d, 1.0, 64)
  free %a.s
  free %b.s
  free %c.s
  return %d, u0
}
"""
)
"""7 x, by two regions: the second one reads a result of the first."""
STATE = (
    ADD_KERNEL
    + """
const %k : f32[64]

func @main(%x: f32[64], %cache: f32[64]) {
  %a = alloc f32[64]
  launch @add(%x, %k, %a, 1.0, 64)
  %b = alloc f32[64]
  launch @add(%cache, %a, %b, 1.0, 64)
  copy %cache, %b
  free %b.s
  return %a
}
"""
)
"""x + k, which the cache sums up."""


@pytest.fixture(scope="module")
def sums(gpu: FakeGpu, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cpp_wrapper.build(graphed(SUMS), tmp_path_factory.mktemp("sums") / "m.so", FAST)


@pytest.fixture(scope="module")
def limited(gpu: FakeGpu, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With at most two graphs."""
    options = replace(FAST, cuda_graphs=2)
    return cpp_wrapper.build(graphed(SUMS), tmp_path_factory.mktemp("limited") / "m.so", options)


def graphed(text: str, constants: Mapping[str, Tensor] | None = None, passes: str = GRAPH_PASSES) -> Artifact:
    return run_on_artifact(artifact_for_gpu(text, constants), passes)


def loaded(gpu: FakeGpu, library: Path) -> LoadedProgram:
    """Without graphs of other tests."""
    gpu.log()
    return cpp_wrapper.load(library)


def built(gpu: FakeGpu, artifact: Artifact, folder: Path) -> LoadedProgram:
    return loaded(gpu, cpp_wrapper.build(artifact, folder / "m.so", FAST))


def counts(gpu: FakeGpu) -> dict[str, int]:
    """Returns the number of calls of each function since the last call."""
    words = [line.split()[0] for line in gpu.log()]
    return {word: words.count(word) for word in dict.fromkeys(words)}


def call(program: LoadedProgram, *args: Any) -> Tensor:
    (found,) = program(*args)
    assert isinstance(found, Tensor)
    return found


def test_golden(update_golden: bool) -> None:
    text, path = str(cpp_wrapper.emit(graphed(SUMS))), GOLDEN / "gpu_graphs.cpp"
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_second_call_captures_and_later_ones_replay(gpu: FakeGpu, sums: Path) -> None:
    program, w = loaded(gpu, sums), torch.randn(64)
    held = []
    for step in range(5):
        x = torch.randn(64)
        found = call(program, x, w)
        torch.testing.assert_close(found, x + 1.5 * w)
        held.append((found, found.clone()))
        seen = counts(gpu)
        assert seen.get("launch") == 2
        assert seen.get("begin_capture", 0) == (step == 1)
        assert seen.get("replay", 0) == (step >= 1)
        assert seen.get("copy", 0) == (2 if step else 0)  # the input, the result
    for found, want in held:
        assert torch.equal(found, want)  # the caller's, for as long as it likes
    w.mul_(2)  # a weight that is updated in place
    torch.testing.assert_close(call(program, x, w), x + 1.5 * w)
    assert counts(gpu)["replay"] == 1
    assert gpu.cuda.library.fake_depth() == 0


def test_a_weight_that_moves_is_captured_with_when_it_stays(gpu: FakeGpu, sums: Path) -> None:
    program, weights = loaded(gpu, sums), [torch.randn(64) for _ in range(2)]
    x, captured = torch.randn(64), []
    for w in (weights[0],) * 3 + (weights[1],) * 3:
        torch.testing.assert_close(call(program, x, w), x + 1.5 * w)
        captured.append(counts(gpu).get("begin_capture", 0))
    assert captured == [0, 1, 0, 0, 1, 0]
    weights = [torch.randn(64) for _ in range(8)]
    replays = []
    for w in weights:  # it never stays: copied from the third move on
        torch.testing.assert_close(call(program, x, w), x + 1.5 * w)
        replays.append(counts(gpu).get("replay", 0))
    assert replays == [0, 0, 1, 1, 1, 1, 1, 1]


def test_sizes_are_keys_and_graphs_bounded(gpu: FakeGpu, limited: Path) -> None:
    program = loaded(gpu, limited)
    w = {n: torch.randn(n) for n in (8, 16, 32, 64)}

    def run(*sizes: int) -> dict[str, int]:
        for n in sizes:
            x = torch.randn(n)
            torch.testing.assert_close(call(program, x, w[n]), x + 1.5 * w[n])
        return counts(gpu)

    assert run(8, 8, 16, 16)["begin_capture"] == 2
    assert "replay" not in run(32, 32, 32)  # two exist already
    assert run(8, 16)["replay"] == 2
    seen = run(*[8, 64] * 12)  # 16 is no longer used
    assert (seen["begin_capture"], seen["destroy_graph"]) == (1, 1)
    assert run(64, 8)["replay"] == 2


def test_a_result_between_regions_is_lent(gpu: FakeGpu, tmp_path: Path) -> None:
    artifact = graphed(TWO)
    assert [f.replayable for f in artifact.program.functions] == [False, True, True]
    assert '{"graph_0", "c", "l"},\n  {"graph_1", "' in str(cpp_wrapper.emit(artifact))
    program = built(gpu, artifact, tmp_path)
    for _ in range(8):
        x = torch.randn(64)
        found, number = program(x, torch.tensor(5))
        torch.testing.assert_close(found, 7 * x)
        assert number == 5
    gpu.log()
    program(x, torch.tensor(5))
    seen = counts(gpu)
    assert (seen["replay"], seen["copy"], seen.get("begin_capture")) == (2, 3, None)  # x twice, the result


def test_what_is_written_is_state(gpu: FakeGpu, tmp_path: Path) -> None:
    k = torch.randn(64)
    program, cache, total = built(gpu, graphed(STATE, {"k": k}), tmp_path), torch.zeros(64), torch.zeros(64)
    for _ in range(4):
        x = torch.randn(64)
        torch.testing.assert_close(call(program, x, cache), x + k)
        total += x + k
        torch.testing.assert_close(cache, total)
    assert counts(gpu)["replay"] == 3
    for _ in range(6):  # another cache in each call
        x, cache = torch.randn(64), torch.randn(64)
        before = cache.clone()
        call(program, x, cache)
        torch.testing.assert_close(cache, before + x + k)
    assert counts(gpu)["replay"] >= 3


def test_arguments_of_any_layout_are_copied(gpu: FakeGpu, tmp_path: Path) -> None:
    """With elements that share bytes, and with bytes of none between them."""
    text = """
func @main(%x: f32[4, 8]{0, 1}, %y: f32[8, 8]{16, 1}) {
  %a = alloc f32[4, 8]
  copy %a, %x
  %b = alloc f32[8, 8]
  copy %b, %y
  return %a, %b
}
"""
    program = built(gpu, graphed(text), tmp_path)
    for _ in range(5):
        x, y = torch.randn(8).expand(4, 8), torch.randn(8, 16)[:, :8]
        a, b = program(x, y)
        assert torch.equal(a, x)
        assert torch.equal(b, y)
    seen = counts(gpu)
    assert (seen["begin_capture"], seen["replay"]) == (1, 4)


def test_updated_constants_are_captured_anew(gpu: FakeGpu, tmp_path: Path) -> None:
    k = torch.randn(64)
    program, cache, x = built(gpu, graphed(STATE, {"k": k}), tmp_path), torch.zeros(64), torch.randn(64)
    for _ in range(3):
        call(program, x, cache)
    other = torch.randn(64)
    program.update_constants({"k": other})
    counts(gpu)
    captured = []
    for _ in range(3):
        torch.testing.assert_close(call(program, x, cache), x + other)
        captured.append(counts(gpu).get("begin_capture", 0))
    assert captured == [0, 1, 0]


@pytest.mark.skipif(torch.version.cuda is not None, reason="torch has a cuBLAS of its own in the process")
def test_matmuls_have_a_workspace_of_their_own(gpu: FakeGpu, tmp_path: Path) -> None:
    w, bias, batches = torch.randn(6, 4), torch.randn(6), torch.randn(2, 6, 6)
    program = built(gpu, graphed(MATMULS, {"w": w, "bias": bias, "batches": batches}), tmp_path)
    own = gpu.torch.fake_torch_matmuls()
    for step in range(4):
        x = torch.randn(2, 5, 4)
        before = gpu.matmuls.fake_matmuls()
        b, c, d = program(x)
        assert gpu.matmuls.fake_matmuls() - before == (4 if step < 2 else 0)
        a = (x @ w.T + bias).reshape(10, 6)
        torch.testing.assert_close(b, a @ w)
        torch.testing.assert_close(c, a.view(2, 5, 6) @ batches)
        torch.testing.assert_close(d, 2.5 * c)
    assert counts(gpu)["replay"] == 3
    assert gpu.torch.fake_torch_matmuls() == own
    assert gpu.matmuls.fake_workspace() != 0


def test_in_a_graph_of_the_callers_it_runs_as_it_is(gpu: FakeGpu, sums: Path) -> None:
    program, x, w = loaded(gpu, sums), torch.randn(64), torch.randn(64)
    for _ in range(3):
        call(program, x, w)
    gpu.log()
    gpu.cuda.library.fake_capture(1)
    torch.testing.assert_close(call(program, x, w), x + 1.5 * w)
    gpu.cuda.library.fake_capture(0)
    assert counts(gpu) == {"launch": 2}
    call(program, x, w)
    assert counts(gpu)["replay"] == 1


def test_streams_have_graphs_of_their_own(gpu: FakeGpu, sums: Path) -> None:
    program, x, w = loaded(gpu, sums), torch.randn(64), torch.randn(64)
    for stream in (0, 0x70, 0, 0x70, 0, 0x70):
        gpu.torch.fake_stream(ctypes.c_void_p(stream))
        torch.testing.assert_close(call(program, x, w), x + 1.5 * w)
        gpu.torch.fake_stream(None)
    lines = gpu.log()
    assert sum(line.startswith("begin_capture") for line in lines) == 2
    assert [line for line in lines if line.startswith("replay")] == ["replay 0 0", "replay 70 0"] * 2


def test_many_threads(gpu: FakeGpu, limited: Path) -> None:
    program, w = loaded(gpu, limited), torch.randn(1024)

    def work(seed: int) -> None:
        for step in range(30):
            count = (64, 128, 200)[(seed + step) % 3]
            x = torch.full((count,), float(seed * 100 + step))
            torch.testing.assert_close(call(program, x, w[:count]), x + 1.5 * w[:count])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert counts(gpu)["replay"]


@pytest.mark.parametrize(
    "function", ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"]
)
def test_what_cannot_be_captured_runs_as_it_is(
    gpu: FakeGpu, sums: Path, function: str, capfd: pytest.CaptureFixture[str]
) -> None:
    program, x, w = loaded(gpu, sums), torch.randn(64), torch.randn(64)
    call(program, x, w)
    gpu.cuda.fail(function, 900)
    for _ in range(4):
        torch.testing.assert_close(call(program, x, w), x + 1.5 * w)
    assert "replay" not in counts(gpu)
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "CPP595" in line]
    assert "@graph_0 runs as it is, since it could not be captured: [CPP591]" in line
    assert gpu.cuda.library.fake_depth() == 0
    assert gpu.torch_log()[-1].startswith("back to stream")


def test_a_fault_in_a_replay_is_the_callers_to_see(gpu: FakeGpu, sums: Path) -> None:
    program, x, w = loaded(gpu, sums), torch.randn(64), torch.randn(64)
    for _ in range(3):
        call(program, x, w)
    gpu.cuda.fail("cuGraphLaunch", 700)
    with pytest.raises(cpp_wrapper.DeviceError, match=r"CPP591.*replay a graph: CUDA_ERROR_ILLEGAL_ADDRESS"):
        program(x, w)
    for _ in range(3):
        torch.testing.assert_close(call(program, x, w), x + 1.5 * w)


def test_operators_that_allocate_are_not_captured(gpu: FakeGpu, tmp_path: Path) -> None:
    """The reason is in the source, in the metadata, and in the output of `wir stats`.

    The pass keeps such operators out.
    """
    text = MATMULS.replace(
        "%b = alloc f32[10, 4]\n  call aten::mm.out(%a, %w, out=%b)", "%b = call aten::relu(%a) : f32[10, 6]"
    )
    text = 'extern "aten::relu(Tensor self) -> Tensor"\n' + text
    data = {"w": torch.randn(6, 4), "bias": torch.randn(6), "batches": torch.randn(2, 6, 6)}
    whole = graphed(text, data, "cuda-graphs")
    why = "aten::relu allocates memory of its own"
    assert program_stats(whole.program).foreign_memory == {"graph_0": why}
    assert ("  @graph_0 not captured in C++", why) in list(program_stats(whole.program).rows())
    sources = cpp_wrapper.emit(whole)
    assert f"// not captured as a CUDA graph: {why}" in str(sources)
    assert "graphs.cpp" not in sources.files
    path = cpp_wrapper.build(graphed(text, data), tmp_path / "m.so", FAST)
    facts = cpp_wrapper.metadata(path)
    assert (facts["replayed"], facts["not_replayed"]) == (["graph_0"], {})
    assert cpp_wrapper.metadata(cpp_wrapper.build(whole, path, FAST))["not_replayed"] == {"graph_0": why}
    none = cpp_wrapper.metadata(cpp_wrapper.build(graphed(SUMS), path, replace(FAST, cuda_graphs=0)))
    assert none["not_replayed"] == {"graph_0": "CUDA graphs are switched off"}
    gpu.log()


def test_matmuls_of_whole_numbers_are_not_captured() -> None:
    text = """
extern "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"

func @main(%x: i64[4, 4]) {
  %a = alloc i64[4, 4]
  call aten::mm.out(%x, %x, out=%a)
  %b = alloc i64[4, 4]
  call aten::mm.out(%a, %x, out=%b)
  free %a.s
  return %b
}
"""
    assert "// not captured as a CUDA graph: aten::mm.out is not a matmul of f32, f16, bf16" in str(
        cpp_wrapper.emit(graphed(text))
    )
