"""The main loop of a test process: it joins a group over GPUs, and runs steps until one fails."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def join_over_gpus(rank: int, world: int, folder: Path, seconds: float = 60) -> None:
    """This process has the GPU of its rank, and waits so long for the others."""
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=seconds),
        device_id=torch.device("cuda", rank),
    )


def run_steps(rank: int, folder: Path, steps: Mapping[str, Callable[[], Any]]) -> None:  # Any: JSON
    """Runs all steps, and writes after each its result, or its failure as a text.

    A failure ends the process, since the others may be waiting at another step.
    """
    done: dict[str, Any] = {}
    for name, step in steps.items():
        torch.manual_seed(rank)
        failed = False
        try:
            done[name] = step() or ""
        except Exception:
            done[name], failed = traceback.format_exc(), True
        (folder / f"rank{rank}.json").write_text(json.dumps(done), encoding="utf-8")
        if failed:
            os._exit(1)
