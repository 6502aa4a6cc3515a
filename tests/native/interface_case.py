"""A model with nested arguments and outputs of each kind, and its native library."""

from __future__ import annotations

import subprocess

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cpp_wrapper import CppOptions
from inductor_frontend import capture
from wrapper_ir.artifact import Artifact

FAST = CppOptions(runtime="native", opt_level=0)


class Scaled(torch.nn.Module):
    """Nested arguments, a default, outputs of each kind, and a buffer that calls write."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight)
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor, scale: float = 2.0, *, d: dict[str, Tensor]) -> dict[str, object]:
        self.calls.add_(1)
        y = torch.relu(x * self.weight) * d["k"]
        return {"y": y, "same": x, "rest": (x.shape[0], None, 3, self.calls.clone())}


X = np.arange(-10, 10, dtype=np.float32).reshape(5, 4)
K = np.full(4, 2, np.float32)


def expected(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The output `y`."""
    y: npt.NDArray[np.float32] = np.maximum(x * np.array([1, -2, 3, 0.5], np.float32), 0) * K
    return y


WEIGHT = torch.tensor([1.0, -2.0, 3.0, 0.5])


def capture_scaled(weight: Tensor = WEIGHT) -> Artifact:
    """Captures the model with a symbolic first size."""
    n = torch.export.Dim("n", min=2, max=64)
    shapes = {"x": {0: n}, "d": {"k": None}}
    x, k = torch.from_numpy(X), torch.from_numpy(K)
    with torch.no_grad():
        return capture(Scaled(weight.clone()), (x,), {"d": {"k": k}}, dynamic_shapes=shapes)


def output(*command: object) -> str:
    """Runs a program. Returns what it prints."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
