"""Functions that Dynamo compiles ahead of time and stores: `torch.compile(f).aot_compile(...)`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from inductor_frontend import BackendError
from tests.common.torch_versions import since

pytestmark = pytest.mark.skipif(not since("2.13"), reason="older versions do so by a setting only")

X = torch.arange(32.0).view(4, 8) / 10
_ELSEWHERE = """
import sys

import torch

with open(sys.argv[1], "rb") as file:
    run = torch.compiler.load_compiled_function(file)
x = torch.arange(32.0).view(4, 8) / 10
torch.testing.assert_close(run(x), torch.relu(x - 1) + x.sum())
print("done")
"""


def model(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x - 1) + x.sum()


def ahead(emitter: str, x: torch.Tensor) -> Any:  # Any: torch's own class
    torch._dynamo.reset()
    options: dict[str, Any] = {"emitter": emitter}
    compiled: Any = torch.compile(model, backend="wrapper_ir", fullgraph=True, options=options)
    return compiled.aot_compile(((x,), {}))


@pytest.mark.slow
@pytest.mark.parametrize("emitter", ["python", "fx", "cpp"])
def test_another_process_runs_what_was_stored(emitter: str, tmp_path: Path) -> None:
    """Twice: what the cache has makes no difference."""
    for number in range(2):
        function = ahead(emitter, X)
        torch.testing.assert_close(function(X), model(X))
        path = tmp_path / f"{number}.bin"
        function.save_compiled_function(str(path))
        process = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _ELSEWHERE, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.stdout == "done\n", process.stderr[-3000:]


def test_gradients_are_refused_by_name() -> None:
    with pytest.raises(BackendError, match="FE361"):
        ahead("python", X.clone().requires_grad_())


def test_modes_are_refused_by_name() -> None:
    torch._dynamo.reset()
    compiled: Any = torch.compile(
        model, backend="wrapper_ir", fullgraph=True, mode="max-autotune-no-cudagraphs"
    )
    with pytest.raises(BackendError, match=r"FE103|FE362"):
        compiled.aot_compile(((X,), {}))
