"""Saved graph modules, run by another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHILD = """
import copy, sys, torch, fx_converter
from pathlib import Path
from torch.utils._pytree import tree_leaves

def double(source, target, count):
    target.as_strided((count,), (1,)).copy_(source.as_strided((count,), (1,)) * 2)

def increment(x):
    x.add_(1)

class Runtime:
    kind = "pytest-kernels"
    def load_all(self, kernels, target):
        return {kernel.name: globals()[kernel.payload.strip()] for kernel in kernels}

options = fx_converter.FxOptions(find_runtime=lambda kind: Runtime()) if sys.argv[2] == "own" else None
for file in sorted(Path(sys.argv[1]).glob("*.wir")):
    module = fx_converter.load(file, options)
    for graph in (m for m in module.modules() if isinstance(m, torch.fx.GraphModule)):
        graph.graph.lint()
        assert all("val" in node.meta for node in graph.graph.nodes), file
    for (args, kwargs), want, after in copy.deepcopy(torch.load(file.with_suffix(".pt"), weights_only=True)):
        with torch.no_grad():
            got = tree_leaves(module(*args, **kwargs))
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, equal_nan=True)
        torch.testing.assert_close(args[:len(after)], after)
    print("equal", file.stem, flush=True)
assert not {"inductor_frontend", "py_wrapper", "cpp_wrapper.compile"} & set(sys.modules)
"""


def another_process(folder: Path, runtimes: str) -> list[str]:
    """Loads and runs all graphs in a folder; returns the names of those with the expected results."""
    child = [sys.executable, "-c", CHILD, str(folder), runtimes]
    done = subprocess.run(child, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.split()[1] for line in done.stdout.splitlines() if line.startswith("equal ")]
