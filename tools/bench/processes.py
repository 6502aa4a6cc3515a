"""Measurements in processes of their own, with caches in a folder of theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

__all__ = ["in_fresh_process"]


def in_fresh_process(arguments: Sequence[str], caches: str) -> dict[str, float]:
    """What Python, started with `arguments`, prints last: numbers by name, as JSON. Every cache of ours and of torch's is in
    the folder `caches`. Raises RuntimeError with what the process wrote where it fails."""
    os.makedirs(caches, exist_ok=True)
    env = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
        "WRAPPER_IR_CACHE_DIR": f"{caches}/wir",
        "TMPDIR": caches,  # where Inductor keeps precompiled headers
        "WRAPPER_IR_COMPILE_CACHE": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers
