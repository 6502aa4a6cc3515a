"""Functions that Dynamo compiles ahead of time and stores: `torch.compile(f).aot_compile(...)`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from packages.inductor_frontend.tests import ahead_models
from torch._dynamo.aot_compile import AOTCompiledFunction
from torch._functorch import config as functorch_config

from inductor_frontend import BackendError, CaptureError
from inductor_frontend.backend.ahead import AheadPiece
from tests.common.torch_versions import since
from wrapper_ir.errors import ExecutionError

# Any in this file: torch's own class of compiled functions, and results of any function.

X = torch.arange(32.0).view(4, 8) / 10
_ROOT = Path(__file__).parents[3]
_ELSEWHERE = """
import sys

import torch

with open(sys.argv[1], "rb") as file:
    run = torch.compiler.load_compiled_function(file)
x = torch.arange(32.0).view(4, 8) / 10
torch.testing.assert_close(run(x), torch.relu(x - 1) + x.sum())
print("done")
"""


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    """Enables ahead-of-time compilation, which is the default since torch 2.13."""
    with torch._dynamo.config.patch(enable_aot_compile=True):
        yield


def model(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x - 1) + x.sum()


def saving(x: torch.Tensor) -> torch.Tensor:
    """Saves a product for its backward graph."""
    return (x @ x.t()).relu() @ x


def ahead(emitter: str, x: torch.Tensor, function: Callable[..., Any] = model, **arguments: Any) -> Any:
    torch._dynamo.reset()
    options: dict[str, Any] = {"emitter": emitter} if emitter else {}
    options |= arguments.pop("options", {})
    compiled: Any = torch.compile(
        function, backend="wrapper_ir", fullgraph=True, options=options or None, **arguments
    )
    return compiled.aot_compile(((x,), {}))


def again(function: Any) -> Any:
    """Stores and loads a function."""
    return AOTCompiledFunction.deserialize(AOTCompiledFunction.serialize(function).serialized_data)


def leaf() -> torch.Tensor:
    return X.clone().requires_grad_()


def gradient(run: Callable[..., Any], *, keep: bool = False) -> torch.Tensor | None:
    """Returns the gradient of the input; if `keep`, after two backward passes."""
    x = leaf()
    result = run(x).square().sum()
    if keep:
        result.backward(retain_graph=True)
    result.backward()
    return x.grad


def run_elsewhere(*arguments: str) -> str:
    """Runs Python in another process; returns its output."""
    process = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], capture_output=True, text=True, check=False, cwd=_ROOT
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout


@pytest.mark.slow
@pytest.mark.parametrize("emitter", ["python", "fx", "cpp"])
def test_another_process_runs_what_was_stored(emitter: str, tmp_path: Path) -> None:
    """Twice: what the cache has makes no difference."""
    for number in range(2):
        function = ahead(emitter, X)
        torch.testing.assert_close(function(X), model(X))
        path = tmp_path / f"{number}.bin"
        function.save_compiled_function(str(path))
        assert run_elsewhere("-c", _ELSEWHERE, str(path)) == "done\n"


@pytest.mark.slow
@pytest.mark.parametrize("emitter", ["python", "fx", "cpp"])
def test_another_process_trains_what_was_stored(emitter: str, tmp_path: Path) -> None:
    """Symbolic sizes, written inputs, results without gradients; buffers, dropout, a checkpoint; tied
    weights."""
    for name in ahead_models.NAMES:
        function = ahead_models.compile_ahead(name, emitter)
        ahead_models.check(name, function)
        function.save_compiled_function(str(tmp_path / f"{name}.bin"))
    script = "import sys; from packages.inductor_frontend.tests import ahead_models as m; m.check_stored(sys.argv[1])"
    names = run_elsewhere("-c", script, str(tmp_path))
    assert names.split() == sorted(ahead_models.NAMES)


class TestStored:
    """One process: the stored bytes are loaded again."""

    def test_the_backward_graph_is_compiled_before_it_is_called(self) -> None:
        piece = ahead("python", leaf())._artifacts.compiled_fn.piece
        assert piece.backward is not None
        assert "tangents" in str([p.value.name for p in piece.backward.program.main.params])

    @pytest.mark.parametrize("emitter", ["python", "fx", "cpp"])
    def test_saved_twice(self, emitter: str) -> None:
        torch.testing.assert_close(gradient(again(again(ahead(emitter, leaf())))), gradient(model))

    def test_second_backward_pass(self) -> None:
        """Memory of saved tensors is reused unless torch's option is off when the function is compiled."""
        with pytest.raises(RuntimeError, match="retain_graph"):
            gradient(again(ahead("python", leaf(), saving)), keep=True)
        with functorch_config.patch(donated_buffer=False):
            function = ahead("python", leaf(), saving)
        for run in (function, again(function)):
            torch.testing.assert_close(gradient(run, keep=True), gradient(saving, keep=True))

    def test_compiled_autograd_is_refused(self) -> None:
        function = again(ahead("python", leaf()))
        context = torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager"))
        with context, pytest.raises(BackendError, match=r"FE403.*\n.*ahead of time"):
            gradient(function)

    @pytest.mark.parametrize(
        ("arguments", "stored"),
        [
            ({"mode": "reduce-overhead"}, {"emitter": "python", "cuda_graphs": 16}),
            ({"mode": "max-autotune-no-cudagraphs"}, {"emitter": "python", "tune": True}),
            ({"options": {"persistent_buffers": True}}, {"emitter": "python", "persistent_buffers": True}),
        ],
    )
    def test_options_of_the_emitter(self, arguments: dict[str, Any], stored: dict[str, object]) -> None:
        function = again(ahead("", leaf(), **arguments))
        options = function._artifacts.compiled_fn.options
        assert {name: value for name, value in options.items() if value} == stored
        torch.testing.assert_close(gradient(function), gradient(model))

    def test_unknown_modes_are_refused(self) -> None:
        with pytest.raises(CaptureError, match=r"FE103.*fastest"):
            ahead("", X, mode="fastest")

    def test_an_input_that_has_memory_during_the_call_only(self) -> None:
        def sharded(x: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
            storage = parameter.untyped_storage()
            storage.resize_(x.numel() * 4)
            parameter.copy_(x.detach())
            result = parameter * x
            storage.resize_(0)
            return result

        parameter = torch.empty(4, 8)
        parameter.untyped_storage().resize_(0)
        torch._dynamo.reset()
        compiled: Any = torch.compile(sharded, backend="wrapper_ir", fullgraph=True)
        function = again(compiled.aot_compile(((leaf(), parameter), {})))
        torch.testing.assert_close(gradient(lambda x: function(x, parameter)), 2 * X.square() * X)
        assert parameter.untyped_storage().nbytes() == 0


@pytest.fixture(scope="module")
def stored() -> bytes:
    """The stored form of a function with a backward graph."""
    with torch._dynamo.config.patch(enable_aot_compile=True):
        return AheadPiece.serialize_compile_artifacts(ahead("python", leaf())._artifacts.compiled_fn)


class TestDamaged:
    def test_bytes(self, stored: bytes) -> None:
        for position in range(0, len(stored), len(stored) // 50):
            damaged = bytearray(stored)
            damaged[position] ^= 0x41
            with pytest.raises((BackendError, CaptureError), match=r"FE363|FE401|FE103"):
                AheadPiece.deserialize_compile_artifacts(bytes(damaged))

    @pytest.mark.parametrize("case", ["empty", "cut", "one file", "exchanged", "twice", "three", "numbers"])
    def test_files(self, stored: bytes, case: str) -> None:
        head, _, body = stored.partition(b"\n")
        forward, backward = json.loads(head)["sizes"]
        first, second = body[:forward], body[forward:]
        contents: dict[str, tuple[list[object], bytes]] = {
            "empty": ([0, 0], b""),
            "cut": ([forward, backward], body[:-1]),
            "one file": ([forward, 0], first),
            "exchanged": ([backward, forward], second + first),
            "twice": ([forward, forward], first + first),
            "three": ([forward, backward, 1], body + b"x"),
            "numbers": ([forward, "more"], body),
        }
        sizes, files = contents[case]
        data = json.dumps({"options": {}, "sizes": sizes}).encode() + b"\n" + files
        with pytest.raises(BackendError, match=r"FE363.*ahead of time"):
            AheadPiece.deserialize_compile_artifacts(data)

    @pytest.mark.parametrize("name", ["_KEY", "_BACKWARD_KEY"])
    def test_of_another_torch(self, stored: bytes, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(f"inductor_frontend.backend.standalone.{name}", "piece of torch 1.0")
        with pytest.raises(BackendError, match="FE363"):
            AheadPiece.deserialize_compile_artifacts(stored)


@pytest.mark.skipif(not since("2.15"), reason="older versions have no torch.compiler.precompile")
@pytest.mark.parametrize("emitter", ["python", "fx", "cpp"])
def test_precompile_is_refused(emitter: str, tmp_path: Path) -> None:
    """Torch itself accepts two backends only. Functions that are compiled already are refused in its trace."""
    function = ahead(emitter, leaf())
    function.disable_guard_check()
    files = {"artifact_path": tmp_path / "m.py", "cache_path": tmp_path / "m.cache"}
    capture = torch.compiler.precompile.capture  # type: ignore[attr-defined]  # since 2.15
    with pytest.raises(ValueError, match="must be 'inductor' or 'eager'"):
        capture(model, **files, backend="wrapper_ir")
    with (
        pytest.raises(ExecutionError, match="WIR939"),
        capture(lambda x: function(x), **files, backend="eager") as call,
    ):
        call(leaf())
