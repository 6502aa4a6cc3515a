"""A compiler process: reads jobs from a socket and writes results to it until the peer closes it.

A message is 8 bytes of length and then its bytes. A job is the function's name (`module:name`), a line feed,
and the argument. A result is one letter (`=`: the result, `!`: an error of this package, as JSON, `?`: any
other error, as text) and the rest.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import socket
import traceback
from typing import BinaryIO

from triton_runtime.compile.torch_stub import TorchStub
from triton_runtime.errors import TritonRuntimeError

LENGTH = 8


def write_message(pipe: BinaryIO, *parts: bytes) -> None:
    """Writes one message; raises OSError if the peer has closed the socket."""
    pipe.write(sum(map(len, parts)).to_bytes(LENGTH, "little"))
    for part in parts:
        pipe.write(part)
    pipe.flush()


def read_message(pipe: BinaryIO) -> bytes | None:
    """Reads the next message; None if the peer has closed the socket."""
    head = pipe.read(LENGTH)
    if len(head) < LENGTH:
        return None
    size = int.from_bytes(head, "little")
    data = pipe.read(size)
    return data if len(data) == size else None


def serve(connection: int, stub: TorchStub) -> None:
    """Serves on a socket (its number) until the peer closes it.

    Output of jobs does not go there. `stub` replaces torch if it is installed.
    """
    with (
        socket.socket(fileno=connection) as ours,
        ours.makefile("rb") as jobs,
        ours.makefile("wb") as results,
    ):
        try:
            while (job := read_message(jobs)) is not None:
                write_message(results, *_answer(job, stub))
        except OSError:
            # the client has gone
            pass
        finally:
            shutil.rmtree(
                os.environ["TRITON_CACHE_DIR"],
                ignore_errors=True,
                # the client may have been killed
            )


def _answer(job: bytes, stub: TorchStub) -> tuple[bytes, bytes]:
    answer = _result(job)
    if not stub.missed:
        return answer
    stub.remove()
    return _result(job)


def _result(job: bytes) -> tuple[bytes, bytes]:
    name, _, argument = job.partition(b"\n")
    try:
        module, _, function = name.decode().partition(":")
        result = getattr(importlib.import_module(module), function)(argument)
        return b"=", result
    except TritonRuntimeError as error:
        facts = [type(error).__name__, error.code, error.message, error.hint]
        return b"!", json.dumps(facts).encode()
    # an unexpected error is reported to the client
    except Exception:
        return b"?", traceback.format_exc().encode()
