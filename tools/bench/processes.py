"""Measurements in separate processes: with caches in a given folder, or several at a time that end with this
one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType


def in_fresh_process(arguments: Sequence[str], caches: str) -> dict[str, float]:
    """Runs Python with `arguments` in a fresh process.

    Returns its last line of output: numbers by name, as JSON. Every cache of ours and of torch's is in the
    folder `caches`. Raises RuntimeError with the process's output if it fails.
    """
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
    process = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], env=env, capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise RuntimeError(process.stderr)
    numbers: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return numbers


def exit_on_termination() -> None:
    """Makes SIGTERM raise SystemExit in the main thread, so that clean-up code runs."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Kills a process of `Processes`, and those that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Processes:
    """Processes in separate sessions, all ended at the end of the block, also after an exception."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._started:
            end_process(process)

    def start(self, command: Sequence[str], log: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Starts one, which writes into `log`."""
        with log.open("wb") as file:
            process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=env, start_new_session=True
            )
        self._started.append(process)
        return process
