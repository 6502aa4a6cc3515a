"""Starts compiler processes: asks a fork server, which is started on first use."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress

from triton_runtime.compile.worker import LENGTH

_POLL_SECONDS = 0.002


class WorkerDied(BrokenExecutor):
    """A process died while it worked on a job; the message has its exit status and last output."""


class Forker:
    """Forks processes that run `worker.serve`. Thread-safe; a server that has ended is restarted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        # unanswered import requests
        self._imports = 0
        self._since = 0.0

    @property
    def pid(self) -> int | None:
        """Process id of the server, if one was started."""
        return None if self._server is None else self._server.pid

    @property
    def age(self) -> float | None:
        """Seconds since the server was started; None if there is no server."""
        return None if self._server is None else time.monotonic() - self._since

    def ready(self) -> bool:
        """True if the server has finished its imports and would fork immediately. Never blocks."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._take_over()
            while self._control is not None and _has_answered(self._control):
                self._read(self._control)
                self._imports -= 1
        except OSError:  # the server has ended
            self._close()
        finally:
            self._lock.release()
        return self._control is not None and not self._imports

    def fork(
        self, modules: Sequence[str], variables: Mapping[str, str], printed: int
    ) -> tuple[int, socket.socket]:
        """Forks a process with `modules` imported, if possible, and `variables` as its environment.

        Its output is written to the file `printed`. Returns its pid and a socket to it. Raises WorkerDied if
        no process starts.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            pid = self._ask(_request("fork", modules, variables), [theirs.fileno(), printed])
        assert pid is not None
        return pid, ours

    def prepare(self, modules: Sequence[str]) -> None:
        """Makes the server import `modules`, if possible, in the background.

        If the server does not start, the next `fork` raises the error.
        """
        with self._lock, suppress(OSError):
            self._take_over()
            self._send(_request("import", modules, os.environ), ())
            self._imports += 1

    def ended(self, pid: int, patience: float) -> int:
        """Returns the exit status of a process; kills it if it has not ended after `patience` seconds."""
        deadline = time.monotonic() + patience
        while (status := self._ask({"reap": pid}, ())) is None:
            if time.monotonic() > deadline:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
        return status

    def close(self) -> None:
        """Ends the server; processes that it forked end with their sockets."""
        with self._lock:
            self._close()

    def __del__(self, pid: Callable[[], int] = os.getpid) -> None:
        # `os` may be unloaded at interpreter exit
        if self._owner == pid():
            self._close()

    def _ask(self, request: Mapping[str, object], files: Sequence[int]) -> int | None:
        with self._lock:
            self._take_over()
            try:
                return self._answer(request, files)
            except OSError:  # the server has exited, after its idle timeout or killed
                self._close()
            try:
                return self._answer(request, files)
            except OSError as error:
                self._close()
                raise WorkerDied(f"no compiler process starts: {error}") from error

    def _take_over(self) -> None:
        # a forked copy of the owning process
        if self._owner != os.getpid():
            self._owner, self._control, self._server, self._imports = os.getpid(), None, None, 0

    def _send(self, request: Mapping[str, object], files: Sequence[int]) -> socket.socket:
        control = self._control or self._start()
        data = json.dumps(request).encode()
        socket.send_fds(control, [len(data).to_bytes(LENGTH, "little")], files)
        control.sendall(data)
        return control

    def _answer(self, request: Mapping[str, object], files: Sequence[int]) -> int | None:
        control = self._send(request, files)
        while self._imports:
            self._read(control)
            self._imports -= 1
        answer: int | None = json.loads(self._read(control))
        return answer

    @staticmethod
    def _read(control: socket.socket) -> bytes:
        """Reads one line of an answer."""
        answer = b""
        while not answer.endswith(b"\n"):
            # the next line may already have arrived
            more = control.recv(1)
            if not more:
                raise ConnectionResetError("the server has ended")
            answer += more
        return answer

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-m", "triton_runtime.compile.server", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._control, self._imports, self._since = ours, 0, time.monotonic()
        return ours

    def _close(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._server is not None:
            # it may still run the imports of `prepare`
            self._server.kill()
            self._server.wait()
        self._control = self._server = None
        self._imports = 0


def _has_answered(control: socket.socket) -> bool:
    """True if an answer can be read. Raises OSError if the server has ended."""
    try:
        if control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
            return True
    except BlockingIOError:
        return False
    raise ConnectionResetError("the server has ended")


def _request(what: str, modules: Sequence[str], variables: Mapping[str, str]) -> dict[str, object]:
    # without the working directory, which is not meant for modules
    return {what: list(modules), "env": dict(variables), "path": [place for place in sys.path if place]}
