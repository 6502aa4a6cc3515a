"""Builds a package of a model of the zoo for a GPU, in a process without one.

Usage: `python -m tests.cpp.gpu_worker PACKAGE NAME static|dynamic|persistent ARCH...`. The first architecture
is the capture's target; the package runs under torch 2.11 and later, with any build version.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import cpp_wrapper
from cpp_wrapper import CppOptions
from inductor_frontend import capture
from tests.common.zoo import ZOO


def main(package: Path, name: str, shapes: str, archs: tuple[str, ...]) -> None:
    """Captures and builds."""
    assert not torch.cuda.is_available()
    case = ZOO[name]()
    dynamic = case.dynamic if shapes == "dynamic" else None
    artifact = capture(case.model, case.args, case.kwargs, dynamic_shapes=dynamic, target=f"cuda:{archs[0]}")
    options = CppOptions(
        archs=archs, opt_level=1, persistent_buffers=shapes == "persistent", oldest_torch=(2, 11)
    )
    cpp_wrapper.build(artifact, package, options)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], tuple(sys.argv[4:]))
