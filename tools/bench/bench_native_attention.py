"""Attention and LSTM layers of native libraries against torch, ONNX Runtime and OpenVINO.

Usage: `python -m tools.bench.bench_native_attention [--threads 1] [--peers PYTHON]`. `PYTHON` is an interpreter whose
environment has the other runtimes (onnx, onnxruntime, openvino). Each case of attention is a chain of eight, so that
the call of a library, a session or a module counts little. The query is doubled first: operators are compiled for the
instruction set of a program's kernels. The clock is the process's own on one thread, else the wall's; a figure is the
best round in microseconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import cpp_wrapper
import wrapper_ir_native
from cpp_wrapper import CppOptions
from inductor_frontend import capture
from tools.bench.pages import table
from tools.bench.timing import Run, best_seconds

_CHAIN, _ROUNDS, _SECONDS = 8, 15, 0.02
_PEERS = Path(__file__).with_name("native") / "attention_peers.py"


@dataclass(frozen=True)
class Attention:
    """A chain of attention: each result is the next query. Peers get its fields as JSON."""

    batch: int
    heads: int
    queries: int
    keys: int
    width: int
    is_causal: bool = False

    calls = _CHAIN

    def module(self) -> nn.Module:
        return _Attention(self.is_causal)

    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(
            torch.randn(self.batch, length, self.heads, self.width)
            for length in (self.queries, self.keys, self.keys)
        )


class _Attention(nn.Module):
    def __init__(self, is_causal: bool) -> None:
        super().__init__()
        self.is_causal = is_causal

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (heads.transpose(1, 2) for heads in (query * 2, key, value))
        for _ in range(_CHAIN):
            query = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=self.is_causal)
        return query


@dataclass(frozen=True)
class Lstm:
    """A layer of an LSTM."""

    steps: int
    batch: int
    inputs_: int
    size: int

    calls = 1

    def module(self) -> nn.Module:
        return _Lstm(nn.LSTM(self.inputs_, self.size))

    def inputs(self) -> tuple[Tensor, ...]:
        return (torch.randn(self.steps, self.batch, self.inputs_),)


class _Lstm(nn.Module):
    def __init__(self, layer: nn.LSTM) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x)[0]
        return found


CASES: dict[str, Attention | Lstm] = {
    "GPT, 64 tokens, 8 heads of 32": Attention(1, 8, 64, 64, 32, True),
    "GPT-2, 64 tokens, 12 heads of 64": Attention(1, 12, 64, 64, 64, True),
    "BERT, 32 tokens, 6 heads of 64": Attention(1, 6, 32, 32, 64),
    "MiniLM, 16 tokens, 12 heads of 32": Attention(1, 12, 16, 16, 32),
    "MiniLM, 8 x 128 tokens, 12 heads of 32": Attention(8, 12, 128, 128, 32),
    "a token over 64 keys, 12 heads of 64": Attention(1, 12, 1, 64, 64),
    "a token over 1,024 keys, 12 heads of 64": Attention(1, 12, 1, 1024, 64),
    "LSTM, 32 x 16 x 64": Lstm(32, 16, 64, 64),
    "LSTM, 32 x 1 x 256": Lstm(32, 1, 256, 256),
    "LSTM, 32 x 8 x 256": Lstm(32, 8, 256, 256),
}


def _microseconds(run: Run, threads: int, calls: int) -> float:
    clock = time.process_time if threads == 1 else time.perf_counter
    count = max(1, int(_SECONDS / max(best_seconds(run, 3, clock), 1e-6)))

    def several() -> None:
        for _ in range(count):
            run()

    return best_seconds(several, _ROUNDS, clock) / count * 1e6 / calls


def measure(case: Attention | Lstm, threads: int, folder: Path) -> dict[str, float]:
    """Microseconds of one operator, by side."""
    torch.manual_seed(0)
    module, inputs = case.module().eval(), case.inputs()
    with torch.no_grad():
        path = cpp_wrapper.build(capture(module, inputs), folder / "model.so", CppOptions(runtime="native"))
        program = wrapper_ir_native.load(path, threads=threads)
        arrays = [tensor.numpy() for tensor in inputs]
        torch.testing.assert_close(torch.from_numpy(program(*arrays)), module(*inputs), rtol=1e-4, atol=1e-5)
        return {
            "native": _microseconds(lambda: program(*arrays), threads, case.calls),
            "torch": _microseconds(lambda: module(*inputs), threads, case.calls),
        }


def measure_peers(python: str, case: Attention | Lstm, threads: int) -> dict[str, float]:
    """The same of the other runtimes."""
    fields = {key.strip("_"): value for key, value in asdict(case).items()}
    command = ["nice", python, str(_PEERS), str(threads)]
    done = subprocess.run(command, input=json.dumps(fields), text=True, capture_output=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", default="")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows, sides = [], ["native", "torch"]
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            found = measure(case, options.threads, Path(folder))
        if options.peers:
            found |= measure_peers(options.peers, case, options.threads)
        sides = list(found)
        best = min(found[side] for side in sides if side != "native")
        rows.append((name, *(f"{found[side]:.1f}" for side in sides), f"{found['native'] / best:.2f}"))
    print(table(("case", *sides, "native / best"), rows))


if __name__ == "__main__":
    main()
