"""The process that compiler processes are forked from.

It imports once the modules that all of them need, which takes longer than most compilations. Of torch it
imports the modules of Inductor's kernels (`torch_stub`), and all of it if a job needs more. It answers one
request at a time on a socket. A request is a line of JSON, after its length, with open files:

| request | files | answer |
| --- | --- | --- |
| `{"fork": modules, "env": variables, "path": sys.path}` | the worker's socket, its output's file | its pid |
| `{"import": modules, "env": variables, "path": sys.path}` | none | the seconds that it took |
| `{"reap": pid}` | none | its exit status, negative for a signal; null while it runs |

It has no threads, so forking is safe. It ends with the process that started it, or after an idle timeout.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import TypedDict

from triton_runtime._compat import skip_compiler_hash
from triton_runtime.compile.torch_stub import HELPERS, TorchStub
from triton_runtime.compile.worker import LENGTH, serve

_IDLE_SECONDS = 600.0
_FILES = 2

Request = TypedDict(
    "Request",
    {"fork": list[str], "import": list[str], "reap": int, "env": dict[str, str], "path": list[str]},
    total=False,
)
"""A decoded request, as in the table above."""


def _receive(connection: socket.socket) -> tuple[Request, list[int]] | None:
    """Reads the next request and its files; None if the peer has closed the socket."""
    head, files, _, _ = socket.recv_fds(connection, LENGTH, _FILES)
    head = _rest(connection, head, LENGTH)
    data = _rest(connection, b"", int.from_bytes(head, "little"))
    return (json.loads(data), files) if data else None


def _rest(connection: socket.socket, data: bytes, size: int) -> bytes:
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            return b""
        data += more
    return data


def main() -> None:
    """Serves on the socket whose number is the first argument."""
    # an interrupt must not print a traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    control = socket.socket(fileno=int(sys.argv[1]))
    control.settimeout(_IDLE_SECONDS)
    stub = TorchStub()
    # the client has gone, or the idle timeout has passed
    with suppress(OSError):
        while (request := _receive(control)) is not None:
            answer = _answer(*request, control, stub)
            control.sendall(json.dumps(answer).encode() + b"\n")
    # an interpreter with torch loaded may take seconds to exit
    os._exit(0)


def _answer(
    request: Request, files: list[int], control: socket.socket, stub: TorchStub
) -> int | float | None:
    if "reap" in request:
        return _reaped(request["reap"])
    if "fork" in request:
        return _forked(request, files, control, stub)
    begin = time.monotonic()
    _import(request, request["import"], stub)
    return time.monotonic() - begin


def _reaped(pid: int) -> int | None:
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if ended else None


def _import(request: Request, modules: list[str], stub: TorchStub) -> None:
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[:] = request["path"]
    of_torch = {name for name in modules if name.partition(".")[0] == "torch"}
    if of_torch and not (of_torch <= HELPERS and stub.install()):
        stub.remove()
    for name in modules:
        # a job that needs the module reports the error
        with suppress(Exception):
            importlib.import_module(name)
    if "triton.compiler" in sys.modules:
        skip_compiler_hash()


def _forked(request: Request, files: list[int], control: socket.socket, stub: TorchStub) -> int:
    _import(request, request["fork"], stub)
    pid = os.fork()
    if pid:
        for file in files:
            os.close(file)
        return pid
    status = 1
    try:
        control.close()
        connection, printed = files
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        serve(connection, stub)
        status = 0
    finally:
        # skip cleanup of the server's state
        os._exit(status)


if __name__ == "__main__":
    main()
