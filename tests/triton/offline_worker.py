"""Captures models of the zoo for a GPU with given properties, in a process without one.

Usage: `python -m tests.triton.offline_worker FOLDER NAME...`, the properties as JSON on standard input.
Writes `FOLDER/NAME.wir.txt`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from inductor_frontend import CaptureOptions, capture
from inductor_frontend.devices import GpuProperties
from tests.common.zoo import ZOO
from wrapper_ir import print_program


def main(folder: Path, names: list[str], gpu: GpuProperties) -> None:
    """Captures each model."""
    assert not torch.cuda.is_available()
    for name in names:
        case = ZOO[name]()
        options = CaptureOptions(gpu=gpu)
        artifact = capture(case.model, case.args, case.kwargs, target=f"cuda:{gpu.arch}", options=options)
        (folder / f"{name}.wir.txt").write_text(print_program(artifact.program), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:], GpuProperties(**json.load(sys.stdin)))
