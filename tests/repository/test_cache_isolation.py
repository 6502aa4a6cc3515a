"""Caches of two compilers in one folder, across processes: neither is served the other's code, each finds its
own.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

# Compiles and trains functions, each under a name (which decides its sizes), a backend, and torch's cache in
# one of its two forms. Prints which of them were compiled and which were loaded. The functions are matmuls
# only, so that no C++ compiler is needed.
TWO_BACKENDS = """
import json, sys, torch
from pathlib import Path
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._inductor.runtime.runtime_utils import cache_dir
from inductor_frontend.cache import stats

def entries():
    return len(list(Path(cache_dir(), "aotautograd").glob("*/*")))

for name, backend, bundled in json.loads(sys.argv[1]):
    torch._dynamo.reset()
    counters.clear()
    before = entries()
    x, w = torch.ones(ord(name), 4), torch.ones(4, 2, requires_grad=True)
    with functorch_config.patch(bundled_autograd_cache=bundled):
        torch.compile(lambda x, w: x @ w, backend=backend)(x, w).sum().backward()
    assert torch.equal(w.grad, torch.full((4, 2), float(ord(name))))
    ours, theirs = stats(), counters["aot_autograd"]
    print(json.dumps([
        name, backend, ours.lowered, ours.function_hits, theirs["autograd_cache_hit"],
        counters["inductor"]["fxgraph_cache_hit"], entries() - before,
    ]))
"""

# A training step and a prediction; prints the compiled functions, the loaded ones, and the results to the
# last bit.
ONE_STEP = """
import json, sys, torch
from torch._dynamo.utils import counters
from inductor_frontend.cache import stats

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
compiled = torch.compile(model, backend="wrapper_ir")
x = torch.randn(5, 4)
loss = compiled(x).square().mean()
loss.backward()
with torch.no_grad():
    y = compiled(x)
torch.testing.assert_close(y, model(x))
print(json.dumps({
    "lowered": stats().lowered,
    "functions": stats().function_hits,
    "patterns": counters["inductor"]["pattern_matcher_count"],
    "modules": [m for m in ("torch._inductor.compile_fx", "torch._inductor.lowering", "wrapper_ir.verifier") if m in sys.modules],
    "results": [t.tolist() for t in (loss, y, *(p.grad for p in model.parameters()))],
}))
"""


def run(script: str, *args: str, **env: str) -> list[Any]:
    """The JSON lines that a fresh process prints."""
    command = [sys.executable, "-W", "ignore", "-c", script, *args]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


OURS, THEIRS = "wrapper_ir", "inductor"
FIRST = [("a", THEIRS, False), ("b", OURS, False), ("c", THEIRS, True), ("d", OURS, True)]
OTHER = {OURS: THEIRS, THEIRS: OURS}
CONTROL = [("e", THEIRS, False), ("f", OURS, False), ("g", THEIRS, True), ("h", OURS, True)]


def test_neither_backend_is_served_the_others_code(tmp_path: Path) -> None:
    env = {
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "theirs"),
        "WRAPPER_IR_CACHE_DIR": str(tmp_path / "ours"),
        "WRAPPER_IR_COMPILE_CACHE": "1",
    }
    second = [(name, OTHER[backend], bundled) for name, backend, bundled in FIRST]
    run(TWO_BACKENDS, json.dumps([*FIRST, *CONTROL]), **env)
    told = {row[0]: row[1:] for row in run(TWO_BACKENDS, json.dumps([*second, *CONTROL]), **env)}
    for name, backend, bundled in second:
        found, lowered, own_hits, autograd_hits, graph_hits, written = told[name]
        assert found == backend
        assert (own_hits, autograd_hits, graph_hits) == (0, 0, 0), f"{name}: served from a cache"
        assert lowered == (2 if backend == OURS else 0)
        assert written == (0 if backend == OURS else 1), f"{name} ({bundled=}): entries in torch's cache"
    for name, backend, bundled in CONTROL:  # the folders are shared: each finds its own entries
        _, lowered, own_hits, autograd_hits, graph_hits, written = told[name]
        if backend == OURS:
            assert (lowered, own_hits, autograd_hits) == (0, 1, 0)
            assert graph_hits == 2, "hits of ours count among Inductor's"
        else:
            assert (lowered, own_hits, autograd_hits, graph_hits) == (0, 0, 1, 0 if bundled else 2)
        assert written == 0


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    """No lowering; and the C++ compiler is not called for a kernel.

    The verifier runs: it determines the run-time checks of every callable of an artifact.
    """
    log, compiler = tmp_path / "log", tmp_path / "g++"
    real = os.environ.get("WRAPPER_IR_CXX") or os.environ.get("CXX") or "g++"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {real} "$@"\n')
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    env = {
        "WRAPPER_IR_CACHE_DIR": str(tmp_path / "ours"),
        "WRAPPER_IR_COMPILE_CACHE": "1",
        "WRAPPER_IR_CXX": str(compiler),
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    }
    [cold] = run(ONE_STEP, **env)
    assert (cold["lowered"], cold["functions"]) == (3, 0)
    assert cold["modules"]
    assert compilations(log)
    log.unlink()
    [warm] = run(ONE_STEP, **env)
    assert (warm["lowered"], warm["functions"], warm["patterns"], warm["modules"]) == (
        0,
        2,
        0,
        ["wrapper_ir.verifier"],
    )
    assert compilations(log) == []
    assert warm["results"] == cold["results"]


def compilations(log: Path) -> list[str]:
    """Calls of the compiler that wrote a library."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [line for line in lines if "-shared" in line or " -o " in line]
