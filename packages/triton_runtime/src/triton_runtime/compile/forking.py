"""Starts compiler processes: asks a server, which is started when it is needed first, to fork them."""

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
    """A process ended while it worked on a job; the message has its exit status and last words."""


class Forker:
    """Forks processes that run `worker.serve`. Safe among threads; a server that has ended is started again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._imports = 0  # how many requests to import are not answered yet
        self._since = 0.0

    @property
    def pid(self) -> int | None:
        """The server, where one was started."""
        return None if self._server is None else self._server.pid

    @property
    def age(self) -> float | None:
        """Seconds since the server was started; None where there is none."""
        return None if self._server is None else time.monotonic() - self._since

    def ready(self) -> bool:
        """Whether a process would be forked at once: the server has imported what it was asked to. Never waits."""
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
        """A process that has imported `modules`, as far as that works, with `variables` as its environment; what it prints
        goes to the file `printed`. Gives its pid, and a socket to speak with it. Raises WorkerDied where none starts."""
        ours, theirs = socket.socketpair()
        with theirs:
            pid = self._ask(_request("fork", modules, variables), [theirs.fileno(), printed])
        assert pid is not None
        return pid, ours

    def prepare(self, modules: Sequence[str]) -> None:
        """Has the server import `modules`, as far as that works, in the background. Where it does not start, whoever forks is
        told."""
        with self._lock, suppress(OSError):
            self._take_over()
            self._send(_request("import", modules, os.environ), ())
            self._imports += 1

    def ended(self, pid: int, patience: float) -> int:
        """The exit status of a process, which is killed where it has not ended after `patience` seconds."""
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
        # `os` may be gone when the interpreter ends
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
        if self._owner != os.getpid():  # we are a copy of the process that it belongs to
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
        found: int | None = json.loads(self._read(control))
        return found

    @staticmethod
    def _read(control: socket.socket) -> bytes:
        """An answer."""
        answer = b""
        while not answer.endswith(b"\n"):
            more = control.recv(1)  # the next line may be there, too
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
            self._server.kill()  # it may still import what `prepare` asked for
            self._server.wait()
        self._control = self._server = None
        self._imports = 0


def _has_answered(control: socket.socket) -> bool:
    """Whether an answer can be read. Raises OSError where the server has ended."""
    try:
        if control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
            return True
    except BlockingIOError:
        return False
    raise ConnectionResetError("the server has ended")


def _request(what: str, modules: Sequence[str], variables: Mapping[str, str]) -> dict[str, object]:
    # not the folder that we happen to run in, which is not a place for modules
    return {what: list(modules), "env": dict(variables), "path": [place for place in sys.path if place]}
