"""The main program of a compiler process: reads jobs from its input, writes results to its output, until either ends.

A message is 8 bytes of length and then its bytes. A job is the function's name (`module:name`), a line feed, and the
argument; a result is one letter (`=`: the result, `!`: an error of this package, as JSON, `?`: any other, as text) and the
rest.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import traceback
from typing import BinaryIO

from triton_runtime.errors import TritonRuntimeError

__all__ = ["main", "read_message", "write_message"]

_LENGTH = 8


def write_message(pipe: BinaryIO, *parts: bytes) -> None:
    """Writes one message; raises OSError where the other side is gone."""
    pipe.write(sum(map(len, parts)).to_bytes(_LENGTH, "little"))
    for part in parts:
        pipe.write(part)
    pipe.flush()


def read_message(pipe: BinaryIO) -> bytes | None:
    """The next message; None where the other side is gone."""
    head = pipe.read(_LENGTH)
    if len(head) < _LENGTH:
        return None
    size = int.from_bytes(head, "little")
    data = pipe.read(size)
    return data if len(data) == size else None


def main() -> None:
    """Serves until the input ends. What anyone prints goes to the errors' stream: the output is for results."""
    jobs = sys.stdin.buffer
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Triton's own cache would serve what someone else put there; this process has one of its own.
    cache = os.environ["TRITON_CACHE_DIR"]
    try:
        while (job := read_message(jobs)) is not None:
            write_message(results, *_answer(job))
    except BrokenPipeError:
        pass  # whoever asked is gone
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def _answer(job: bytes) -> tuple[bytes, bytes]:
    name, _, argument = job.partition(b"\n")
    try:
        module, _, function = name.decode().partition(":")
        result = getattr(importlib.import_module(module), function)(argument)
        return b"=", result
    except TritonRuntimeError as error:
        facts = [type(error).__name__, error.code, error.message, error.hint]
        return b"!", json.dumps(facts).encode()
    except Exception:  # a defect, to be told to whoever asked
        return b"?", traceback.format_exc().encode()


if __name__ == "__main__":
    main()
