"""Builds of one library from empty caches, for both runtimes: the GPT of four blocks on 64 tokens.

`python -m tools.bench.library_build ARTIFACT RUNTIME PATH` builds a library in this process, and prints the seconds, and the
processor seconds of this process and its compilers, as JSON. `library_builds` calls it in fresh processes.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

import cpp_wrapper
import wrapper_ir
from cpp_wrapper import CppOptions
from inductor_frontend import capture
from tools.bench.models import small_gpt2
from tools.bench.pages import table
from tools.bench.processes import in_fresh_process
from tools.bench.timing import alternate, median_ratio
from wrapper_ir.artifact import Artifact
from wrapper_ir_passes import MEMORY_PASSES, run_on_artifact

_LIBTORCH, _NATIVE, _PACKED = "with libtorch", "native", "native, packed weights"
_RUNTIMES = {_LIBTORCH: "torch", _NATIVE: "native", _PACKED: "native"}
_JOBS = (1, 2)
ROUNDS = 3


def _artifacts() -> Mapping[str, Artifact]:
    """Returns the model's programs by side, with planned memory."""
    model = small_gpt2().eval().requires_grad_(requires_grad=False)
    ids = torch.randint(0, 1000, (1, 64), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        captured = capture(model, (ids,), {"use_cache": False})
    level = torch.backends.cpu.get_cpu_capability().lower().replace("default", "generic")
    memory = MEMORY_PASSES.replace("use-out-variants", "use-out-variants{runtime=native}")
    passes = {_LIBTORCH: MEMORY_PASSES, _NATIVE: memory, _PACKED: f"pack-constants{{level={level}}},{memory}"}
    return {side: run_on_artifact(captured, one) for side, one in passes.items()}


def _measured(side: str, jobs: int, artifact: Path) -> dict[str, float]:
    """Builds in a fresh process with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/m.{'pt2' if side == _LIBTORCH else 'so'}"
        words = ("-m", "tools.bench.library_build", str(artifact), _RUNTIMES[side], library)
        os.environ["WRAPPER_IR_BUILD_JOBS"] = str(jobs)
        return in_fresh_process(words, f"{folder}/caches")


def library_builds(rounds: int = ROUNDS) -> str:
    """A table of both runtimes with one and two compiler processes at once; sides alternate."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        paths = dict[str, Path]()
        for number, (side, artifact) in enumerate(_artifacts().items()):
            paths[side] = Path(folder) / f"{number}.wir"
            wrapper_ir.save(artifact, paths[side])
        for jobs in _JOBS:
            found = alternate(
                {side: partial(_measured, side, jobs, path) for side, path in paths.items()}, rounds
            )
            seconds = {side: [one["seconds"] for one in answers] for side, answers in found.items()}
            rows += [
                (
                    side,
                    jobs,
                    f"{min(seconds[side]):.1f}",
                    f"{min(one['processor'] for one in answers):.1f}",
                    f"{median_ratio(seconds[side], seconds[_LIBTORCH]):.2f}",
                )
                for side, answers in found.items()
            ]
    return table(("library", "compilers at once", "seconds", "processor seconds", "over libtorch's"), rows)


def main(argv: Sequence[str]) -> None:
    """Builds, and prints numbers."""
    artifact, runtime, path = argv
    loaded = wrapper_ir.load(artifact)
    options = CppOptions(runtime=runtime, persistent_buffers=True)
    start, processor = time.perf_counter(), _processor_seconds()
    cpp_wrapper.build(loaded, Path(path), options)
    print(json.dumps({"seconds": time.perf_counter() - start, "processor": _processor_seconds() - processor}))


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main(sys.argv[1:])
